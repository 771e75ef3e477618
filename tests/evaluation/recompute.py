"""Every metric once more, from the JSON lines, with NumPy and nothing of the package.

  python tests/evaluation/recompute.py RECORDS.jsonl [INSTRUMENT]

prints {corpus: {metric: number or null}}; INSTRUMENT measures R, Err, Supp, Vac and
Credit in place of the paper's instruments.
"""

import json
import sys

import numpy as np

PAPER = {"Err": "gemma_judge", "T5": "minicheck_t5", "AS": "alignscore", "Supp": "minicheck_t5"}
PAPER |= {"Vac": "bespoke", "R": "bespoke"}


def flat(answers):
  """One row a sentence, of all answers, in arrays."""
  rows = [(a, s) for a in answers for s in a["sentences"]]
  rows = [(a, s) for a, s in rows if a["answer"][s["start"] : s["end"]].strip() != ""]
  table = {
    "answer": np.array([next(i for i, b in enumerate(answers) if b is a) for a, _ in rows], int),
    "copied": np.array([s["copied"] for _, s in rows], bool),
    "credit": np.array([np.nan if s["credit"] is None else s["credit"] for _, s in rows], float),
    "words": np.array([len(a["answer"][s["start"] : s["end"]].split()) for a, s in rows], int),
  }
  return table, [s for _, s in rows]


def probabilities(sentences, name, key):
  """P - threshold of every sentence in float32, as the update compares; NaN where not scored."""
  values = []
  for s in sentences:
    score = s["scores"].get(name, {"threshold": 0.0})
    value = score.get(key)
    value = np.nan if value is None else value
    values.append(np.float32(value) - np.float32(score["threshold"]))
  return np.array(values)


def share(above, below):
  return float(100 * np.sum(above) / np.sum(below)) if np.sum(below) else None


def metrics(answers, instrument):
  table, sentences = flat(answers)
  n = len(answers)
  words = np.array([a["words"] for a in answers])
  copied_words = np.array([round(a["copy"] * a["words"]) for a in answers])
  exact = np.array([a["em"] for a in answers if a["em"] is not None], float)
  found = {
    "Copy": share(copied_words, words),
    "Words": float(words.mean()),
    "Ref": float(100 * np.mean([a["declines"] for a in answers])),
    "EM": float(100 * exact.mean()) if len(exact) else None,
    "<5 words": share(table["words"] < 5, np.ones(len(sentences))),
  }
  authored = ~table["copied"]
  for name, paper in PAPER.items():
    checker = instrument or paper
    if name in ("T5", "AS"):
      checker = paper
    if not all(checker in a["instruments"] for a in answers):
      found[name] = None
      continue
    support = probabilities(sentences, checker, "supported")
    vacuous = probabilities(sentences, checker, "vacuous")
    scored = authored & ~np.isnan(support)
    good = authored & (support > 0)
    if name == "Err":
      found[name] = share(scored & ~good, scored)
    elif name in ("T5", "AS"):
      found[name] = share(good, scored)
    elif name == "Supp":
      found[name] = None if (authored & np.isnan(support)).any() else float(good.sum() / n)
    elif name == "Vac":
      found[name] = share(good & (vacuous > 0), good & ~np.isnan(vacuous))
    elif np.isnan(support).any():
      found[name] = None
    else:
      count = np.bincount(table["answer"], minlength=n)
      yes = np.bincount(table["answer"], weights=support > 0, minlength=n)
      found[name] = float(100 * np.mean(yes / np.maximum(count, 1)))
  earned = ~np.isnan(table["credit"])
  found["Credit"] = share(np.where(earned, np.nan_to_num(table["credit"]), 0), earned)
  return found


def main(path, instrument=None):
  with open(path, encoding="utf-8") as file:
    answers = [json.loads(line) for line in file]
  corpora = sorted({a["corpus"] for a in answers})
  result = {c: metrics([a for a in answers if a["corpus"] == c], instrument) for c in corpora}
  print(json.dumps(result))


if __name__ == "__main__":
  main(*sys.argv[1:])

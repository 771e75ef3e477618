"""Whole answers compared by a judge in both orders, and the probes of its rubric.

The pairs, the perturbations and the mathematics: which answer a model prefers is asked
elsewhere (asc_jax/tools/judge.py) and stored, one JSON object a pair.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from asc_jax.evaluation import bootstrap
from asc_jax.evaluation.records import Record, real_sentences, schema_problem
from asc_jax.evaluation.runs import Setting
from asc_jax.text import sentences as sentences_lib
from asc_jax.types import Passage

# What a probe prefers, `a`, over the other of the two, and what a good rubric gives. One of
# the two is an answer of the base model as it is, the other is made from it.
PROBES = {
  "copied": "copied form preferred (ideal 50)",
  "padded": "padded answer preferred (at most 50)",
  "planted": "intact answer preferred (high)",
}


class Judgement(TypedDict):
  """One pair of answers, `a` against `b`, shown in both orders."""

  judge: str
  rubric: str
  task: str  # "win", or a name of PROBES
  corpus: str
  id: str
  a: str  # label, e.g. the method's name
  b: str
  forward: str  # "a", "b" or "tie" where a was shown first
  backward: str  # the same where b was shown first


def problem(value: Any) -> str | None:
  """What keeps `value` from being a Judgement, or None."""
  if found := schema_problem(value, Judgement):
    return found
  verdicts = {value["forward"], value["backward"]}
  return None if verdicts <= {"a", "b", "tie"} else "forward and backward are a, b or tie"


class Pair(NamedTuple):
  """Two answers to one question, to be shown to a judge in both orders.

  Attributes:
    task, corpus, id, a, b: as in `Judgement`.
    question, passages: what the answers were written from.
    texts: the answers of a and b.
  """

  task: str
  corpus: str
  id: str
  a: str
  b: str
  question: str
  passages: tuple[Passage, ...]
  texts: tuple[str, str]


class Rate(NamedTuple):
  """A win rate in percent with its 95 % interval (None below the least number of questions)."""

  rate: float
  low: float | None
  high: float | None
  questions: int


def preferred(verdict: str, *, swapped: bool) -> str:
  """Turns "first", "second" or "tie" into "a", "b" or "tie"."""
  if verdict == "tie":
    return verdict
  return "a" if (verdict == "first") != swapped else "b"


def wins(forward: str, backward: str) -> float:
  """1 if `a` won in both orders, 0 if `b` did; ties and disagreements are half a win.

  Examples:
    >>> wins("a", "a"), wins("b", "b"), wins("a", "b"), wins("tie", "a")
    (1.0, 0.0, 0.5, 0.5)
  """
  return 0.5 if forward != backward or forward == "tie" else float(forward == "a")


def win_rate(
  judgements: Sequence[Judgement],
  *,
  resamples: int = 10_000,
  seed: int = 0,
) -> Rate:
  """How often `a` wins, pairs weighted alike, resampled over questions."""
  sums: dict[tuple[str, str], np.ndarray] = {}
  for one in judgements:
    pair = np.array([wins(one["forward"], one["backward"]), 1.0])
    key = one["corpus"], one["id"]
    sums[key] = sums.get(key, np.zeros(2)) + pair
  stacked = np.stack(list(sums.values()))  # [questions, 2]
  above, below = stacked.sum(axis=0)
  low, high = None, None
  if len(stacked) >= bootstrap.MIN_QUESTIONS:
    drawn = bootstrap.resampled(stacked, resamples=resamples, seed=seed)
    low, high = bootstrap.interval(100 * drawn[:, 0] / drawn[:, 1])
  return Rate(100 * above / below, low, high, len(stacked))


def contests(base: Setting, setting: Setting) -> list[Pair]:
  """A method's first answer to each question against the base model's."""
  theirs = {(r["corpus"], r["id"]): r["answer"] for r in setting.all() if not r["answer_index"]}
  return [
    _pair(
      "win", record, (setting.label, theirs[record["corpus"], record["id"]]), (base.label, None)
    )
    for record in base.all()
    if not record["answer_index"] and (record["corpus"], record["id"]) in theirs
  ]


def probes(base: Setting, *, seed: int = 0) -> list[Pair]:
  """The three probes of the base model's first answers, where the answers offer them.

  An answer that declines is left out, and so is one from which a probe cannot be made
  (`copied_form`, `padded`, `planted_error`).
  """
  found = []
  for record in base.all():
    if record["answer_index"] or record["declines"]:
      continue
    answer = record["answer"]
    said = [answer[s["start"] : s["end"]] for s in real_sentences(record)]
    texts = [passage["text"] for passage in record["passages"]]
    sources = [text[start:end] for text in texts for start, end in sentences_lib.split(text)]
    rng = random.Random(f"{seed}:{record['corpus']}:{record['id']}")
    made = {
      "copied": copied_form(said, sources),
      "padded": padded(said, record["question"]),
      "planted": planted_error(answer, texts, rng),
    }
    for task, text in made.items():
      if text is not None:
        whole, other = (base.label, None), (task, text)
        pair = (whole, other) if task == "planted" else (other, whole)
        found.append(_pair(task, record, *pair))
  return found


def _pair(task: str, record: Record, a, b) -> Pair:
  """`a` and `b` are (label, answer); None: the record's own answer."""
  texts = [record["answer"] if text is None else text for _, text in (a, b)]
  passages = tuple(Passage(p["title"], p["text"]) for p in record["passages"])
  where = record["corpus"], record["id"]
  return Pair(task, *where, a[0], b[0], record["question"], passages, (texts[0], texts[1]))


def _content(text: str) -> set[str]:
  return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def copied_form(sentences: Sequence[str], passage_sentences: Sequence[str]) -> str | None:
  """The answer with every sentence exchanged for the passage sentence that says most of it.

  Args:
    sentences: of a base answer, in order.
    passage_sentences: of all its passages.

  Returns:
    The copied form; None where some sentence shares less than half of its longer
    words with every passage sentence, since the two would not say the same.
  """
  chosen: list[str] = []
  for sentence in sentences:
    words = _content(sentence)
    best = max(passage_sentences, key=lambda s: len(words & _content(s)), default="")
    if not words or 2 * len(words & _content(best)) < len(words):
      return None
    if best not in chosen:
      chosen.append(best)
  return " ".join(chosen)


def padded(sentences: Sequence[str], question: str) -> str | None:
  """The answer with sentences around it that add length and no information."""
  if not sentences:
    return None
  topic = question.strip().rstrip("?")
  return " ".join(
    [
      f'The question to be considered here is the following one: "{topic}?"',
      *sentences,
      f"To say the same thing once more: {sentences[0]}",
      "All of this should be kept in mind when the question is considered as a whole.",
    ]
  )


_YEAR_OR_COUNT = re.compile(r"(?<![\w.,])\d+(?![\w]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")
_VERB = re.compile(r"\b(is|are|was|were|has|have|had|can|could|will|would|did|does)\b(?! not)")


def planted_error(answer: str, passages: Sequence[str], rng: random.Random) -> str | None:
  """The answer with one fact made false: a number, else a name, else a verb negated.

  A number moves by 2 to 9, a name becomes another name of the passages. None where
  the answer offers none of the three.
  """
  if numbers := list(_YEAR_OR_COUNT.finditer(answer)):
    spot = rng.choice(numbers)
    return _spliced(answer, spot, str(int(spot[0]) + rng.randint(2, 9)))
  names = list(_NAME.finditer(answer))
  others = sorted({name for text in passages for name in _NAME.findall(text)})
  others = [name for name in others if name not in answer]
  if names and others:
    return _spliced(answer, rng.choice(names), rng.choice(others))
  if verbs := list(_VERB.finditer(answer)):
    spot = rng.choice(verbs)
    return _spliced(answer, spot, spot[0] + " not")
  return None


def _spliced(text: str, spot: re.Match, replacement: str) -> str:
  return text[: spot.start()] + replacement + text[spot.end() :]

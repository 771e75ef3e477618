"""Fits the embedded checker's two heads on labelled pairs, and scores held-out ones once.

  python -m asc_jax.tools.train_checker --config=configs/checker_minilm.py

Head a, the reward's, is fitted on the pairs of the split checker_a, its held-out twin b
on those of checker_b; both are scored on the split eval, beside the lexical instrument.
"left out" is a head fitted without the set that it is scored on. `--config.out=FOLDER` gets
minilm_a.json and minilm_b.json, as packaged in asc_jax/checkers/data, and the scores of the heads
fitted without a set, which compare_checkers reads; the same pairs give the same bytes on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from asc_jax import checkers, cli
from asc_jax.checkers import encoder, fitting, minilm, quality
from asc_jax.config import Field
from asc_jax.data import files, splits, support_pairs
from asc_jax.tools import evaluate_checker
from asc_jax.types import UserError

FIELDS = {
  "data.path": Field("../shared/data", "folder of the labelled sets (data/support_pairs.py)"),
  "data.pairs": Field(
    None,
    "pairs read of each set in each part, chosen by hash; None: all",
    int,
    low=1,
    optional=True,
  ),
  "data.test": Field("eval", "part that heads are scored on", choices=splits.SPLITS[1:]),
  "encoder.path": Field(None, "all-MiniLM-L6-v2's folder; None: the package's", optional=True),
  "fit.l2": Field(0.1, "weight of half the squared norm of the head's weights", float, low=1e-6),
  "out": Field(None, "folder for the heads; None: they are only measured", optional=True),
}


class Rows(NamedTuple):
  """One set's pairs, policies' training questions left out."""

  features: np.ndarray  # float32[N, F]
  lexical: np.ndarray  # float32[N]
  labels: np.ndarray  # bool[N]
  splits: np.ndarray  # str[N]
  keys: np.ndarray  # str[N]

  def part(self, *splits: str) -> Rows:
    """The pairs of some parts of the committed split."""
    inside = np.isin(self.splits, splits)
    return Rows(*(column[inside] for column in self))


def main(config) -> None:
  """Reads, embeds, fits, prints the tables and writes the heads."""
  if config.out is not None:
    files.check_folder(config.out, "--config.out")
  pairs = support_pairs.read(config.data.path)
  for split in (f"checker_{head}" for head in minilm.HEADS):
    if len({p.supported for found in pairs.values() for p in found if p.split == split}) < 2:
      raise UserError(
        f"{config.data.path} has no pairs of both labels in the split {split}; add labelled sets"
      )
  embed = encoder.Encoder(encoder.find_weights(config.encoder.path))
  sets = {}
  for name, found in pairs.items():
    start = time.monotonic()
    sets[name] = read_rows(choose(found, config.data.pairs), embed)
    seconds = time.monotonic() - start
    print(f"{name}: {len(sets[name].labels)} pairs embedded in {seconds:.0f} s", flush=True)
  tests = {name: rows.part(config.data.test) for name, rows in sets.items()}
  twins, others = [], []
  for head in minilm.HEADS:
    parts = {name: rows.part(f"checker_{head}") for name, rows in sets.items()}
    twins.append(fit(parts, config.fit.l2))
    others.append(left_out(parts, tests, config.fit.l2))
    print(f"\nhead {head}, fitted on checker_{head}, scored on {config.data.test}\n")
    print(table(parts, tests, twins[-1], others[-1]))
  print("\nrank correlation of the twins' scores:", agreement(tests, twins))
  if config.out is None:
    return
  out = files.make_folder(config.out, "--config.out")
  for head, twin, scores in zip(minilm.HEADS, twins, others, strict=True):
    (out / f"minilm_{head}.json").write_text(twin.to_json())
    scored = {name: (test.keys, test.labels, scores[name]) for name, test in tests.items()}
    folder = files.make_folder(out / f"left_out_{head}", "--config.out")
    evaluate_checker.write_scores(folder, f"minilm_{head}, each set left out", scored)
  print(f"\nwritten: {out}/minilm_a.json, minilm_b.json, left_out_a, left_out_b")


def choose(
  pairs: Sequence[support_pairs.SupportPair], count: int | None
) -> list[support_pairs.SupportPair]:
  """The pairs that no policy is trained on, `count` of each part at most, chosen by hash."""
  kept = []
  for split in splits.SPLITS[1:]:
    kept += support_pairs.choose([p for p in pairs if p.split == split], count)
  return kept


def read_rows(pairs: Sequence[support_pairs.SupportPair], embed: encoder.Encoder) -> Rows:
  """Features and labels of the pairs."""
  documents, sentences = [p.document for p in pairs], [p.sentence for p in pairs]
  return Rows(
    minilm.features(embed, documents, sentences),
    checkers.load("lexical").score(documents, sentences),
    np.array([p.supported for p in pairs]),
    np.array([p.split for p in pairs]),
    np.array([p.key for p in pairs]),
  )


def fit(parts: dict[str, Rows], l2: float) -> minilm.Head:
  """A head on some pairs of each set, every set and both labels counting alike."""
  which = np.repeat(np.arange(len(parts)), [len(p.labels) for p in parts.values()])
  labels = np.concatenate([p.labels for p in parts.values()])
  features = np.concatenate([p.features for p in parts.values()])
  return fitting.fit_head(features, labels, fitting.balance(which, labels), l2)


def left_out(parts: dict[str, Rows], tests: dict[str, Rows], l2: float) -> dict[str, np.ndarray]:
  """Scores of each set's test pairs by a head fitted on the others; 0.5 where there is none."""
  scores = {}
  for name, test in tests.items():
    others = {other: part for other, part in parts.items() if other != name}
    known = len({label for part in others.values() for label in part.labels.tolist()}) == 2
    scores[name] = fit(others, l2)(test.features) if known else np.full(len(test.labels), 0.5)
  return scores


def table(
  parts: dict[str, Rows],
  tests: dict[str, Rows],
  head: minilm.Head,
  others: dict[str, np.ndarray],
) -> str:
  """AUROC and balanced accuracy on the part that is tested, in Markdown."""
  grid = np.linspace(0, 1, 101)
  # The share of words has no neutral point: its threshold is fitted on the same pairs.
  threshold = grid[np.argmax([_mean_accuracy(list(parts.values()), t) for t in grid])]
  lines = [
    f"| set | pairs | supported | AUROC lexical | head | left out | balanced accuracy lexical (above {threshold:.2f}) | head (above 0.5) |",
    "|---|---|---|---|---|---|---|---|",
  ]
  rows_of_table = []
  for name, test in tests.items():
    scores = head(test.features)
    figures = [
      quality.auroc(test.labels, test.lexical),
      quality.auroc(test.labels, scores),
      quality.auroc(test.labels, others[name]),
      quality.balanced_accuracy(test.labels, test.lexical, threshold),
      quality.balanced_accuracy(test.labels, scores),
    ]
    rows_of_table.append(figures)
    share = f"{test.labels.mean():.2f}"
    lines.append(_line(name, str(len(test.labels)), share, *(f"{v:.3f}" for v in figures)))
  lines.append(_line("mean", "", "", *(f"{v:.3f}" for v in np.nanmean(rows_of_table, axis=0))))
  return "\n".join(lines)


def agreement(tests: dict[str, Rows], twins: Sequence[minilm.Head]) -> str:
  """Spearman's correlation of two heads' scores in each set."""
  scores = {name: [head(rows.features) for head in twins] for name, rows in tests.items()}
  return ", ".join(f"{name} {spearmanr(*two).statistic:.2f}" for name, two in scores.items())


def _mean_accuracy(parts: list[Rows], threshold: float) -> float:
  accuracies = [quality.balanced_accuracy(p.labels, p.lexical, threshold) for p in parts]
  return float(np.nanmean(accuracies))


def _line(*cells: str) -> str:
  return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
  cli.run(main, fields=FIELDS)

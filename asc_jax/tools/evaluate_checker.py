"""How good an instrument is on labelled pairs, and what it costs.

  python -m asc_jax.tools.evaluate_checker --config.checker.name=minilm \\
    --config.out=runs/minilm

Prints, for each set under `data.path` (asc_jax/data/support_pairs.py), AUROC, balanced
accuracy at the threshold, calibration error (ECE, ten bins) and seconds per 1,000
sentences, for any instrument; shapes that are new to a set compile within its seconds. With
`out`, also writes reliability.png and the scores, which compare_checkers reads.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from asc_jax import checkers, cli
from asc_jax.checkers import quality
from asc_jax.config import FIELDS as ALL_FIELDS
from asc_jax.config import Field
from asc_jax.data import files, splits, support_pairs
from asc_jax.types import UserError

FIELDS = {
  **{
    name: field
    for name, field in ALL_FIELDS.items()
    if name.startswith("checker.") and name != "checker.score_copied"  # that is of the reward
  },
  "data.path": Field("../shared/data", "folder of the labelled sets"),
  "data.split": Field("eval", "part of the committed split", choices=(*splits.SPLITS, "all")),
  "data.pairs": Field(
    None, "pairs of each set, chosen by hash; None: all", int, low=1, optional=True
  ),
  "out": Field(None, "folder for the reliability plot and the scores", optional=True),
}


def main(config) -> None:
  """Scores every set once and prints the table."""
  found_sets = support_pairs.read(config.data.path)
  if config.out is not None:
    files.check_folder(config.out, "--config.out")
  checker = checkers.from_config(config.checker)
  lines = [
    "| set | pairs | supported | AUROC | balanced accuracy | ECE | not scored | s / 1,000 |",
    "|---|---|---|---|---|---|---|---|",
  ]
  scored: dict[str, tuple[list[str], np.ndarray, np.ndarray]] = {}
  figures = []
  for name, found in found_sets.items():
    pairs = [p for p in found if config.data.split in ("all", p.split)]
    pairs = support_pairs.choose(pairs, config.data.pairs)
    if not pairs:
      continue
    labels, scores, seconds = run(checker, pairs)
    scored[name] = [p.key for p in pairs], labels, scores
    figures.append(measures(labels, scores, checker.threshold))
    lines.append(_row(name, len(pairs), labels, figures[-1], scores, seconds))
  if not scored:
    raise UserError(f"{config.data.path} has no pair in the split {config.data.split}")
  means = " | ".join(f"{v:.3f}" for v in np.nanmean(figures, axis=0))
  print(f"{checker.name} {checker.weights_hash}, threshold {checker.threshold:g}\n")
  print("\n".join([*lines, f"| mean | | | {means} | | |"]))
  if config.out is not None:
    write(pathlib.Path(config.out), checker, scored)


def run(checker: checkers.Checker, pairs) -> tuple[np.ndarray, np.ndarray, float]:
  """Labels and scores of the pairs, NaN where not scored, and the seconds it took."""
  documents, sentences = [p.document for p in pairs], [p.sentence for p in pairs]
  checker.score(documents[:1], sentences[:1])  # this pair's shapes compile outside the clock
  start = time.monotonic()
  scores = checker.score(documents, sentences)
  return np.array([p.supported for p in pairs]), scores, time.monotonic() - start


def measures(labels: np.ndarray, scores: np.ndarray, threshold: float) -> list[float]:
  """AUROC, balanced accuracy and ECE of what was scored."""
  known = ~np.isnan(scores)
  labels, scores = labels[known], scores[known]
  return [
    quality.auroc(labels, scores),
    quality.balanced_accuracy(labels, scores, threshold),
    quality.calibration(labels, scores).error,
  ]


def write(out: pathlib.Path, checker: checkers.Checker, scored: dict[str, Any]) -> None:
  """reliability.png, one curve a set, and scores.json."""
  from asc_jax.evaluation import figures

  files.make_folder(out, "--config.out")
  figure, axes = figures.panels(1, 1, (4.5, 4.0))
  axis = axes.flat[0]
  axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
  for name, (_, labels, scores) in scored.items():
    known = ~np.isnan(scores)
    curve = quality.calibration(labels[known], scores[known])
    axis.plot(curve.predicted, curve.observed, marker="o", markersize=3, label=name)
  axis.set(xlabel="score", ylabel="share supported", title=checker.name, xlim=(0, 1), ylim=(0, 1))
  axis.legend(fontsize=7)
  figures.save(figure, out / "reliability")
  write_scores(out, f"{checker.name} {checker.weights_hash}", scored)
  print(f"\nwritten: {out}/scores.json and {out}/reliability.*")


def write_scores(out: pathlib.Path, instrument: str, scored: Mapping[str, Any]) -> None:
  """scores.json in a folder that is there; `scored` is {set: (keys, labels, scores)}."""
  table = {
    name: [
      [key, bool(label), None if np.isnan(score) else round(float(score), 6)]
      for key, label, score in zip(*rows, strict=True)
    ]
    for name, rows in scored.items()
  }
  (out / "scores.json").write_text(json.dumps({"instrument": instrument, "scores": table}))


def _row(name, count, labels, values, scores, seconds) -> str:
  cells = " | ".join(f"{v:.3f}" for v in values)
  lost = int(np.isnan(scores).sum())
  cost = 1000 * seconds / count
  return f"| {name} | {count} | {labels.mean():.2f} | {cells} | {lost} | {cost:.1f} |"


if __name__ == "__main__":
  cli.run(main, fields=FIELDS)

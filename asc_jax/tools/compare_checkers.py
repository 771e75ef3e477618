"""Several instruments on the same labelled pairs: each alone, all stacked, how alike they rank.

  python -m asc_jax.tools.compare_checkers TEST_1 TEST_2 --fit=FIT_1,FIT_2

Each folder is what `evaluate_checker --config.out` wrote; an instrument's name is its test
folder's. Pairs that one of them did not score are left out. With `--fit`, the same instruments'
scores on another split in the same order, logistic regression on the logits stacks them; "left
out" is a stack fitted without the set that it is scored on.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logit
from scipy.stats import spearmanr

from asc_jax import cli
from asc_jax.checkers import fitting, quality
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.types import UserError

_L2 = 0.01  # weight of half the squared norm of the stack's weights


class Scores(NamedTuple):
  """One set's pairs under C instruments."""

  labels: np.ndarray  # bool[N]
  values: np.ndarray  # float64[N, C]

  def logits(self) -> np.ndarray:
    return logit(np.clip(self.values, 1e-4, 1 - 1e-4))


def main(test: Sequence[str], fit: str | None) -> None:
  """Reads the scores and prints both tables."""
  sets = read(test)
  names = [pathlib.Path(folder).name for folder in test]
  columns = {name: [row.values[:, i] for row in sets.values()] for i, name in enumerate(names)}
  if fit is not None:
    folders = fit.split(",")
    if len(folders) != len(test):
      raise UserError(f"--fit names {len(folders)} folders for {len(test)} instruments")
    fitted_on = read(folders)
    if fitted_on.keys() != sets.keys():
      raise UserError(f"--fit has the sets {', '.join(fitted_on)}, the test {', '.join(sets)}")
    columns["stacked"] = [stack(fitted_on)(row.logits()) for row in sets.values()]
    columns["stacked, left out"] = [
      stack({k: v for k, v in fitted_on.items() if k != name})(row.logits())
      for name, row in sets.items()
    ]
  print(table(sets, columns))
  if len(names) > 1:
    print("\nrank correlation, mean over the sets:\n")
    for a, b in itertools.combinations(names, 2):
      found = [spearmanr(x, y).statistic for x, y in zip(columns[a], columns[b], strict=True)]
      print(f"  {a}, {b}: {np.nanmean(found):.2f}")


def read(folders: Sequence[str]) -> dict[str, Scores]:
  """Each set's pairs that every folder's instrument scored.

  Raises:
    UserError: naming a file that is missing or no scores.json, or where nothing is shared.
  """
  every = [_read(pathlib.Path(folder) / "scores.json") for folder in folders]
  found = {}
  for name in every[0]:
    rows = [scores.get(name, {}) for scores in every]
    shared = [k for k in rows[0] if all(k in r and r[k][1] is not None for r in rows)]
    if shared:
      labels = np.array([rows[0][k][0] for k in shared])
      found[name] = Scores(labels, np.array([[r[k][1] for r in rows] for k in shared], float))
  if not found:
    raise UserError(f"no pair has a score in each of {', '.join(folders)}; score the same split")
  return found


def _read(path: pathlib.Path) -> dict[str, dict[str, tuple[bool, float | None]]]:
  """{set: {pair: (label, score)}} of a scores.json."""
  if not path.is_file():
    raise UserError(f"{path} is missing; write it with evaluate_checker --config.out=FOLDER")
  (row,) = files.rows(path)
  sets = row.take("scores", dict)
  return {name: {key: (label, score) for key, label, score in rows} for name, rows in sets.items()}


def stack(sets: dict[str, Scores]) -> fitting.Head:
  """Logistic regression on the instruments' logits, every set and both labels counting alike."""
  which = np.repeat(np.arange(len(sets)), [len(s.labels) for s in sets.values()])
  labels = np.concatenate([s.labels for s in sets.values()])
  rows = np.concatenate([s.logits() for s in sets.values()])
  return fitting.fit_head(rows, labels, fitting.balance(which, labels), _L2)


def table(sets: dict[str, Scores], columns: dict[str, list[np.ndarray]]) -> str:
  """AUROC of each column in each set, in Markdown."""
  lines = [f"| set | pairs | {' | '.join(columns)} |", "|---" * (2 + len(columns)) + "|"]
  figures = [
    [quality.auroc(rows.labels, scores[i]) for scores in columns.values()]
    for i, rows in enumerate(sets.values())
  ]
  for (name, rows), values in zip(sets.items(), figures, strict=True):
    lines.append(_line(name, str(len(rows.labels)), *(f"{v:.3f}" for v in values)))
  return "\n".join([*lines, _line("mean", "", *(f"{v:.3f}" for v in np.nanmean(figures, axis=0)))])


def _line(*cells: str) -> str:
  return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
  cli.run(
    main,
    fields=None,
    positional="test",
    fit=Field(None, "folders of the same instruments on another split", optional=True),
  )

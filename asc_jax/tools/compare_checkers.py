"""Several instruments on the same labelled pairs: each alone, all stacked, how alike they rank.

  python -m asc_jax.tools.compare_checkers TEST_1 TEST_2 --fit=FIT_1,FIT_2

Each folder is what `evaluate_checker --config.out` wrote; an instrument goes by its test
folder's name. Pairs that one of them did not score are left out. "averaged" is the mean of all
their log-odds, for which nothing is fitted. With `--fit`, the same instruments'
scores on another split in the same order, logistic regression on the logits stacks them; "left
out" is a stack fitted without the set that it is scored on.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from asc_jax import cli
from asc_jax.checkers import base, fitting, quality
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.types import UserError

_COLUMNS = {"averaged", "stacked", "stacked, left out"}  # of several instruments
_L2 = 0.01  # weight of half the squared norm of the stack's weights


class Scores(NamedTuple):
  """One set's pairs under C instruments."""

  keys: list[str]
  labels: np.ndarray  # bool[N]
  values: np.ndarray  # float64[N, C]

  def logits(self) -> np.ndarray:
    return base.log_odds(self.values)


def main(test: Sequence[str], fit: str | None) -> None:
  """Reads the scores and prints both tables."""
  names = [pathlib.Path(folder).name for folder in test]
  if len(set(names)) < len(names):
    raise UserError(f"two of the folders {', '.join(test)} have one name; rename one")
  if taken := _COLUMNS & set(names):
    raise UserError(f"a folder is named {min(taken)}, as a column of the table is; rename it")
  instruments, sets = read(test)
  columns = {name: [rows.values[:, i] for rows in sets.values()] for i, name in enumerate(names)}
  if len(names) > 1:
    columns["averaged"] = [rows.logits().mean(axis=1) for rows in sets.values()]
  if fit is not None:
    columns |= stacked(sets, _fitted_on(fit.split(","), instruments, sets))
  print(table(sets, columns))
  if len(names) > 1:
    print("\nrank correlation, mean over the sets:\n")
    for a, b in itertools.combinations(names, 2):
      found = [spearmanr(x, y).statistic for x, y in zip(columns[a], columns[b], strict=True)]
      print(f"  {a}, {b}: {np.nanmean(found):.2f}")


def _fitted_on(
  folders: Sequence[str], instruments: list[str], test: dict[str, Scores]
) -> dict[str, Scores]:
  """What `--fit` names, once it is known to be of the same instruments and other pairs."""
  theirs, sets = read(folders)
  if theirs != instruments:
    raise UserError(f"--fit holds {', '.join(theirs)}; the test holds {', '.join(instruments)}")
  if sets.keys() != test.keys():
    raise UserError(f"--fit has the sets {', '.join(sets)}; the test has {', '.join(test)}")
  for name, rows in sets.items():
    if not set(rows.keys).isdisjoint(test[name].keys):
      raise UserError(f"--fit has pairs of {name} that the test has; score another split")
  return sets


def read(folders: Sequence[str]) -> tuple[list[str], dict[str, Scores]]:
  """Each folder's instrument, and each set's pairs that all of them scored.

  A set whose pairs have one label only is left out: there is nothing to rank.

  Raises:
    UserError: naming a file that is missing or no scores.json, or where nothing is shared.
  """
  every = [_read(pathlib.Path(folder) / "scores.json") for folder in folders]
  sets = [rows for _, rows in every]
  found = {}
  for name in sets[0]:
    rows = [scores.get(name, {}) for scores in sets]
    keys = [k for k in rows[0] if all(k in r and r[k][1] is not None for r in rows)]
    labels = np.array([rows[0][k][0] for k in keys], bool)
    if labels.any() and not labels.all():
      found[name] = Scores(keys, labels, np.array([[r[k][1] for r in rows] for k in keys], float))
  if not found:
    raise UserError(
      f"{', '.join(folders)}: no set has pairs of both labels that each has scored; score the "
      "same split"
    )
  return [instrument for instrument, _ in every], found


def _read(path: pathlib.Path) -> tuple[str, dict[str, dict[str, tuple[bool, float | None]]]]:
  """(instrument, {set: {pair: (label, score)}}) of a scores.json."""
  if not path.is_file():
    raise UserError(f"{path} is missing; write it with evaluate_checker --config.out=FOLDER")
  match files.rows(path):
    case [row]:
      instrument, sets = row.take("instrument", str), row.take("scores", dict)
    case _:
      instrument, sets = "", {}
  if not sets or not all(
    isinstance(rows, list) and all(map(_sound, rows)) for rows in sets.values()
  ):
    raise UserError(
      f"{path} is no table of scores; write it again with evaluate_checker --config.out=FOLDER"
    )
  return instrument, {
    name: {key: (label, score) for key, label, score in rows} for name, rows in sets.items()
  }


def _sound(row: Any) -> bool:
  """Whether a row is [key, label, score from 0 to 1 or null]."""
  match row:
    case [str(), bool(), None]:
      return True
    case [str(), bool(), int() | float() as score]:
      return 0 <= score <= 1
  return False


def stacked(sets: dict[str, Scores], fitted_on: dict[str, Scores]) -> dict[str, list[np.ndarray]]:
  """The stack's scores of each set, and of those that are fitted without it."""
  whole = stack(fitted_on)
  found = {"stacked": [whole(rows.logits()) for rows in sets.values()]}
  if len(sets) > 1:
    found["stacked, left out"] = [
      stack({k: v for k, v in fitted_on.items() if k != name})(rows.logits())
      for name, rows in sets.items()
    ]
  return found


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

"""The paper's analyses, from what evaluation recorded: no model, no index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Bucket(NamedTuple):
  """Questions whose count, or popularity, lies from `low` to `high` (inclusive).

  Attributes:
    low: None for the sentences that gave nothing to look up.
    high: None for no limit.
    total: cases in the bucket.
    precision: share of them that is correct, None where there is none.
    jump: precision above that of the nearest lower bucket that has cases.
  """

  low: int | None
  high: int | None
  total: int
  precision: float | None
  jump: float | None

  @property
  def label(self) -> str:
    if self.low is None:
      return "no query"
    if self.high is None:
      return f"{self.low:,} or more"
    return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


def calibration(
  counts: Sequence[int | None], correct: Sequence[bool], starts: Sequence[int]
) -> list[Bucket]:
  """P(correct | count bucket), and where it jumps.

  Args:
    counts: corpus counts, None where nothing was looked up.
    correct: whether each of those answers was correct.
    starts: the buckets' first counts, rising from 0 (`Levels.starts`).

  Returns:
    The bucket without a query, which takes no part in jumps, then one a start.
  """
  found = np.array([-1 if c is None else c for c in counts])
  hits = np.asarray(correct, bool)
  place = np.searchsorted(starts, found, side="right") - 1  # -1: no query
  ends = [*(start - 1 for start in starts[1:]), None]
  outside = hits[place == -1]
  rows = [Bucket(None, None, len(outside), _mean(outside), None)]
  last = None
  for i, (low, high) in enumerate(zip(starts, ends, strict=True)):
    inside = hits[place == i]
    precision = _mean(inside)
    jump = None if precision is None or last is None else precision - last
    rows.append(Bucket(low, high, len(inside), precision, jump))
    last = last if precision is None else precision
  return rows


def popularity_quartiles(popularity: Sequence[int], correct: Sequence[bool]) -> list[Bucket]:
  """Accuracy in four equal parts of the questions, from the least popular up (PopQA)."""
  order = np.argsort(popularity, kind="stable")
  values, hits = np.asarray(popularity)[order], np.asarray(correct, bool)[order]
  rows: list[Bucket] = []
  for inside, part in zip(np.array_split(values, 4), np.array_split(hits, 4), strict=True):
    precision, last = _mean(part), rows[-1].precision if rows else None
    jump = None if precision is None or last is None else precision - last
    low, high = (int(inside[0]), int(inside[-1])) if len(inside) else (None, None)
    rows.append(Bucket(low, high, len(part), precision, jump))
  return rows


def transitions(before: Mapping[str, str], after: Mapping[str, str]) -> Counter[tuple[str, str]]:
  """How many questions went from which outcome to which, over ids that both hold.

  Examples:
    >>> transitions({"a": "refused", "b": "wrong"}, {"a": "correct", "b": "wrong"})
    Counter({('refused', 'correct'): 1, ('wrong', 'wrong'): 1})
  """
  return Counter((outcome, after[key]) for key, outcome in before.items() if key in after)


def _mean(values: np.ndarray) -> float | None:
  return float(values.mean()) if len(values) else None

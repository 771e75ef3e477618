"""The paired bootstrap over questions, all resamples at once.

A resample draws as many questions as there are, with replacement: it is a vector
of how often each was drawn, so that R resamples of every sum are one product
[R, Q] @ [Q, columns], and every ratio is formed again from its resampled sums.
Both methods take the same draws, and the answers of a question stay together.
"""

from __future__ import annotations

import collections
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from asc_jax.evaluation import metrics
from asc_jax.evaluation.records import Record
from asc_jax.types import UserError

MEAN = "mean"  # the row of the plain mean over corpora
MIN_QUESTIONS = 50  # fewer give no interval


class Change(NamedTuple):
  """A column under two methods; low and high bound the change, None where not given."""

  base: float | None
  method: float | None
  low: float | None = None
  high: float | None = None

  @property
  def change(self) -> float | None:
    return None if self.base is None or self.method is None else self.method - self.base

  @property
  def significant(self) -> bool:
    """Whether the interval of the change leaves out 0."""
    return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def draws(questions: int, *, resamples: int, seed: int, block: int = 500) -> Iterator[np.ndarray]:
  """How often each question is drawn, int64[<= block, questions] a time, `resamples` in all."""
  rng = np.random.default_rng(seed)
  even = np.full(questions, 1 / questions)
  for start in range(0, resamples, block):
    yield rng.multinomial(questions, even, size=min(block, resamples - start))


def resampled(sums: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
  """[Q, ...] sums to [resamples, ...] sums of resampled questions."""
  flat = sums.reshape(len(sums), -1)
  parts = [counts @ flat for counts in draws(len(sums), resamples=resamples, seed=seed)]
  return np.concatenate(parts).reshape(resamples, *sums.shape[1:])


def interval(samples: np.ndarray, level: float = 0.95) -> tuple[float | None, float | None]:
  """The middle `level` of the samples; those that are undefined do not count."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)  # all undefined: no interval
    low, high = np.nanquantile(samples, [(1 - level) / 2, (1 + level) / 2])
  return (None, None) if math.isnan(low) else (float(low), float(high))


def _by_corpus(records: Sequence[Record]) -> dict[str, list[Record]]:
  found: dict[str, list[Record]] = collections.defaultdict(list)
  for record in records:
    found[record["corpus"]].append(record)
  return dict(found)


def _paired_sums(base, method, table, corpus):
  """float64[Q, 2, columns, 2]: base's and the method's sums of the same questions."""
  ids, ours = metrics.question_sums(base, table)
  other, theirs = metrics.question_sums(method, table)
  if lost := set(ids) ^ set(other):
    raise UserError(
      f"{corpus}: question {min(lost)[1]} is in one set of records only ({len(lost)} such);"
      " evaluate both on the same questions"
    )
  order = {key: place for place, key in enumerate(other)}
  return np.stack([ours, theirs[[order[key] for key in ids]]], axis=1)


def compare(
  base: Sequence[Record],
  method: Sequence[Record],
  table: Sequence[metrics.Column],
  *,
  resamples: int = 10_000,
  seed: int = 0,
  min_questions: int = MIN_QUESTIONS,
) -> dict[str, dict[str, Change]]:
  """What `method` changes, for each corpus and for their mean (`MEAN`).

  Args:
    base: the base model's records, any number of corpora.
    method: the method's records of the same questions.
    table: the columns wanted.
    resamples: bootstrap resamples.
    seed: of the draws; each corpus draws anew from it.
    min_questions: a corpus with fewer questions gets no interval.

  Returns:
    {corpus: {column name: Change}}.

  Raises:
    UserError: where the two sets do not answer the same questions.
  """
  ours, theirs = _by_corpus(base), _by_corpus(method)
  if lost := set(ours) ^ set(theirs):
    raise UserError(f"corpus {min(lost)} is in one set of records only; evaluate both on it")
  points, samples = {}, {}
  for place, corpus in enumerate(ours):
    sums = _paired_sums(ours[corpus], theirs[corpus], table, corpus)
    points[corpus] = metrics.values(sums.sum(axis=0), table)  # [2, columns]
    if len(sums) >= min_questions:
      drawn = resampled(sums, resamples=resamples, seed=seed + place)
      samples[corpus] = metrics.values(drawn, table)  # [resamples, 2, columns]
  result = {corpus: _changes(points[corpus], samples.get(corpus), table) for corpus in ours}
  if len(ours) > 1:
    whole = len(samples) == len(ours)
    result[MEAN] = _changes(
      _mean(list(points.values()), table),
      _mean(list(samples.values()), table) if whole else None,
      table,
    )
  return result


def _mean(per_corpus: list[np.ndarray], table: Sequence[metrics.Column]) -> np.ndarray:
  """Mean over corpora; exact match over those that have it (as `metrics.macro_mean`)."""
  stacked = np.stack(per_corpus)  # [corpora, ..., columns]
  mean = stacked.mean(axis=0)
  for i, column in enumerate(table):
    if column.kind == "em":
      having = ~np.isnan(stacked[..., i]).all(axis=tuple(range(1, stacked.ndim - 1)))
      if having.any():
        mean[..., i] = stacked[having, ..., i].mean(axis=0)
  return mean


def _changes(point: np.ndarray, samples: np.ndarray | None, table) -> dict[str, Change]:
  changes = {}
  for i, column in enumerate(table):
    base, method = (None if math.isnan(v) else float(v) for v in point[:, i])
    low, high = None, None
    if samples is not None and base is not None and method is not None:
      low, high = interval(samples[:, 1, i] - samples[:, 0, i])
    changes[column.name] = Change(base, method, low, high)
  return changes

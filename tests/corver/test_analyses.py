"""Analyses of counts, popularity and outcomes against tables worked by hand."""

from collections import Counter

import pytest

from asc_jax.corver import analyses
from asc_jax.corver.analyses import Bucket


def test_calibration():
  counts = [None, 0, 0, 0, 4, 1, 20, 1000, 20, 21]
  correct = [True, False, True, False, False, True, True, True, True, False]
  rows = analyses.calibration(counts, correct, (0, 1, 5, 20))
  assert rows == [
    Bucket(None, None, 1, 1.0, None),
    Bucket(0, 0, 3, pytest.approx(1 / 3), None),
    Bucket(1, 4, 2, 0.5, pytest.approx(1 / 6)),
    Bucket(5, 19, 0, None, None),
    Bucket(20, None, 4, 0.75, 0.25),
  ]
  assert [r.label for r in rows] == ["no query", "0", "1 to 4", "5 to 19", "20 or more"]


def test_popularity_quartiles():
  popularity = [50, 1, 9, 2000, 3, 70, 8, 10, 5]
  correct = [True, False, True, True, False, True, False, True, True]
  # Sorted: 1 3 5 | 8 9 | 10 50 | 70 2000
  assert analyses.popularity_quartiles(popularity, correct) == [
    Bucket(1, 5, 3, pytest.approx(1 / 3), None),
    Bucket(8, 9, 2, 0.5, pytest.approx(1 / 6)),
    Bucket(10, 50, 2, 1.0, 0.5),
    Bucket(70, 2000, 2, 1.0, 0.0),
  ]


def test_fewer_questions_than_quartiles():
  rows = analyses.popularity_quartiles([7, 2], [True, False])
  assert [(r.low, r.total, r.precision) for r in rows] == [
    (2, 1, 0.0),
    (7, 1, 1.0),
    (None, 0, None),
    (None, 0, None),
  ]


def test_transitions_count_ids_of_both():
  before = {"a": "refused", "b": "refused", "c": "wrong", "d": "correct"}
  after = {"a": "correct", "b": "correct", "c": "refused", "e": "wrong"}
  expected = Counter({("refused", "correct"): 2, ("wrong", "refused"): 1})
  assert analyses.transitions(before, after) == expected

"""What every instrument shares: pairs, blanks, order, and scores that are none."""

import numpy as np
import pytest

from asc_jax import checkers
from asc_jax.checkers import base
from asc_jax.types import UserError


class Recorder(base.Checker):
  """Scores by a table, and keeps what it was asked."""

  name = "recorder"
  weights_hash = "0"

  def __init__(self, table):
    self.table = table
    self.asked = []

  def _score(self, documents, sentences):
    self.asked += zip(documents, sentences, strict=True)
    return [self.table[s] for s in sentences]


def test_equal_pairs_are_scored_once_and_come_back_in_place():
  checker = Recorder({"s1": 0.25, "s2": 0.75})
  got = checker.score(["d", "d", "e", "d"], ["s2", "s1", "s1", "s2"])
  assert got.dtype == np.float32
  np.testing.assert_array_equal(got, np.float32([0.75, 0.25, 0.25, 0.75]))
  assert sorted(checker.asked) == [("d", "s1"), ("d", "s2"), ("e", "s1")]


@pytest.mark.parametrize("blank", ["", " \n", "...", "—“”"])
def test_a_blank_text_scores_zero_without_the_model(blank):
  checker = Recorder({"s1": 0.9})
  np.testing.assert_array_equal(checker.score(["d", blank], [blank, "s1"]), np.zeros(2, np.float32))
  assert checker.asked == []


def test_no_pairs():
  got = Recorder({}).score([], [])
  assert got.shape == (0,) and got.dtype == np.float32


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1.5, -0.1])
def test_a_failed_score_is_an_error_not_unsupported(bad):
  with pytest.raises(UserError, match=r"recorder scored .* on 's2'"):
    Recorder({"s1": 0.5, "s2": bad}).score(["d", "d"], ["s1", "s2"])


def test_a_sentence_that_does_not_fit_is_not_scored():
  got = Recorder({"s1": 0.5, "s2": None}).score(["d", "d"], ["s1", "s2"])
  assert got[0] == 0.5 and np.isnan(got[1])


def test_unequal_lengths_are_a_bug():
  with pytest.raises(ValueError, match="1 documents for 2 sentences"):
    Recorder({}).score(["d"], ["a", "b"])


def test_an_unknown_instrument_is_named_with_the_nearest():
  with pytest.raises(UserError, match="did you mean minilm"):
    checkers.load("minilmm")

"""Win rates against a hand count, and perturbations that change what they say they change."""

import random
import re

import numpy as np
import pytest

from asc_jax.evaluation import pairwise


def judgement(number, forward, backward):
  return {
    "judge": "j",
    "rubric": "r",
    "task": "win",
    "corpus": "asqa",
    "id": f"q{number}",
    "a": "asc",
    "b": "base",
    "forward": forward,
    "backward": backward,
  }


def test_verdicts_are_read_in_both_orders():
  assert pairwise.preferred("first", swapped=False) == "a"
  assert pairwise.preferred("first", swapped=True) == "b"
  assert pairwise.preferred("second", swapped=False) == "b"
  assert pairwise.preferred("second", swapped=True) == "a"
  assert pairwise.preferred("tie", swapped=True) == "tie"


def test_win_rate_counts_ties_and_disagreements_as_half():
  rows = [
    judgement(0, "a", "a"),
    judgement(1, "b", "b"),
    judgement(2, "a", "b"),
    judgement(3, "tie", "tie"),
    judgement(4, "a", "tie"),
    judgement(4, "a", "a"),
  ]
  rate = pairwise.win_rate(rows)
  assert rate.rate == pytest.approx(100 * (1 + 0 + 0.5 + 0.5 + 0.5 + 1) / 6)
  assert rate.questions == 5 and rate.low is None


def test_win_rate_interval_is_the_binomials():
  rows = [judgement(i, "a", "a") if i % 4 else judgement(i, "b", "b") for i in range(400)]
  rate = pairwise.win_rate(rows)
  half = 1.96 * 100 * np.sqrt(0.25 * 0.75 / 400)
  assert (rate.low, rate.high) == pytest.approx((75 - half, 75 + half), abs=0.3)


PASSAGE = [
  "The old bridge at Harlow opened in 1884 and carried a single track.",
  "Heavier locomotives exceeded the load for which the span had been designed.",
]


def test_copied_form_is_verbatim_and_says_the_same():
  answer = [
    "The Harlow bridge opened back in 1884.",
    "Its span was not designed for heavier locomotives.",
  ]
  assert pairwise.copied_form(answer, PASSAGE) == " ".join(PASSAGE)
  assert pairwise.copied_form([*answer, "Anglers like trout fishing."], PASSAGE) is None
  assert pairwise.copied_form(answer, []) is None


def test_padding_keeps_the_answer_and_adds_no_fact():
  longer = pairwise.padded(["It opened in 1884.", "It fell."], "When did it open?")
  assert "It opened in 1884. It fell." in longer
  assert set(re.findall(r"\d+", longer)) == {"1884"}
  assert len(longer.split()) > 3 * 6
  assert pairwise.padded([], "When?") is None


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_error_changes_one_fact(seed):
  rng = random.Random(seed)
  answer = "The bridge at Harlow opened in 1884, with 2,418 guests and 3.5 tons of cake."
  wrong = pairwise.planted_error(answer, PASSAGE, rng)
  assert re.fullmatch(re.escape(answer).replace("1884", r"(\d+)"), wrong)
  assert 2 <= int(re.search(r"in (\d+)", wrong)[1]) - 1884 <= 9
  named = pairwise.planted_error("People in Harlow saw it.", ["Others in Ostra and Harlow."], rng)
  assert named == "People in Ostra saw it."
  negated = pairwise.planted_error("the bridge was old", PASSAGE, rng)
  assert negated == "the bridge was not old"
  assert pairwise.planted_error("Yes.", PASSAGE, rng) is None

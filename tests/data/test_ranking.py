"""Cutting passages by the question's words, against the textbook formula."""

import math

import pytest

from asc_jax.data import ranking
from asc_jax.types import Example, Passage


def test_rank_is_okapi_bm25():
  texts = [
    "the otter swims in the river",
    "an otter",
    "river river river bank of the river",
    "foxes",
  ]
  question = "otter river"
  words = [t.split() for t in texts]
  mean = sum(map(len, words)) / 4

  def score(i):
    total = 0.0
    for term in question.split():
      n = sum(term in w for w in words)
      f = words[i].count(term)
      total += (
        math.log(1 + (4 - n + 0.5) / (n + 0.5))
        * f
        * 2.2
        / (f + 1.2 * (0.25 + 0.75 * len(words[i]) / mean))
      )
    return total

  assert ranking.rank(question, texts) == sorted(range(4), key=score, reverse=True)


def test_no_shared_word_keeps_the_order():
  assert ranking.rank("zebra", ["a b", "c d", "e"]) == [0, 1, 2]
  assert ranking.rank("", []) == []


@pytest.mark.parametrize(
  ("room", "kept"), [(1, "b"), (5, "b"), (6, "ab"), (9, "abc"), (10, "abc"), (13, "abcd")]
)
def test_cut_keeps_whole_passages_in_their_order(room, kept):
  # By rank: b says "otters" twice, a once, c and d never.
  passages = (
    Passage("a", "two otters here"),
    Passage("b", "otters eat otters"),
    Passage("c", "x y z"),
    Passage("d", "one two three four"),
  )
  cut = ranking.cut(Example("1", "toy", "otters?", passages), room)
  assert "".join(p.title for p in cut.passages) == kept

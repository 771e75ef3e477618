"""The index's word rule and its two-byte code."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asc_jax.corver import words


def test_words_do_not_depend_on_what_stands_around_them():
  for text in ("Curie won", "(Curie) won", "«Curie», won!", "Curie—won", "\tCurie\u00a0won."):
    assert words.split(text) == ["Curie", "won"]
  assert words.split("Jean-Luc's 3,5 m_x") == ["Jean", "Luc", "s", "3", "5", "m", "x"]
  assert words.split("Zu\u0308rich") == words.split("Z\u00fcrich") == ["Zürich"]


def decode(units):
  """A plain loop: one unit, or a high one and its low one, to a rank."""
  ranks, i = [], 0
  while i < len(units):
    if units[i] < 49152:
      ranks.append(units[i])
      i += 1
    else:
      ranks.append(49152 + (units[i] - 49152) * 8191 + units[i + 1] - 57344)
      i += 2
  return ranks


@given(st.lists(st.integers(0, words.MAX_WORDS - 1)))
def test_every_rank_comes_back_and_none_is_the_separator(ranks):
  units = words.encode(ranks)
  assert units.dtype == np.uint16
  assert decode(units.tolist()) == ranks
  assert 0xFFFF not in units


def test_no_word_begins_or_ends_inside_another():
  ranks = (0, 49151, 49152, 49153, 49152 + 8191, words.MAX_WORDS - 1)
  codes = [tuple(words.encode([rank]).tolist()) for rank in ranks]
  for pair in itertools.product(codes, repeat=2):
    text = pair[0] + pair[1]
    for code in codes:
      found = [i for i in range(len(text)) if text[i : i + len(code)] == code]
      assert found == [i for i, own in ((0, pair[0]), (len(pair[0]), pair[1])) if own == code]

"""The words of the index, and the two-byte units that infini-gram stores.

A word is a maximal run of letters and digits after Unicode's NFC; case is kept, and
punctuation, hyphens and apostrophes separate. The rule knows nothing of where in a
line a word stands, so `(Curie)` and `Curie won` hold the same word.

infini-gram's indexer needs 32 GiB for tokens of four bytes, whatever the corpus, so
words are stored as two-byte units, as UTF-16 stores characters: the first 49,152
words met (in running text, the frequent ones) take one unit, any other takes a high
and a low one. The three ranges are disjoint, so no word begins inside another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

SINGLES = 0xC000
HIGHS = 0xE000 - SINGLES  # high units follow the singles
LOWS = 0xFFFF - 0xE000  # low units follow the high ones; 0xFFFF separates documents
MAX_WORDS = SINGLES + HIGHS * LOWS  # 67 million

_WORD = re.compile(r"[^\W_]+")


def split(text: str) -> list[str]:
  """The words of a text, in order.

  Examples:
    >>> split("St. Maurice's lay-abbot (875)")
    ['St', 'Maurice', 's', 'lay', 'abbot', '875']
  """
  return _WORD.findall(unicodedata.normalize("NFC", text))


def encode(ranks: Sequence[int]) -> np.ndarray:
  """Word ranks, in order of first appearance, to units: uint16[one or two a word].

  Examples:
    >>> encode([0, SINGLES, 1]).tolist()
    [0, 49152, 57344, 1]
  """
  rank = np.asarray(ranks, np.int64)
  rare = rank >= SINGLES
  first = np.arange(len(rank)) + np.cumsum(rare) - rare
  high, low = np.divmod(rank - SINGLES, LOWS)
  units = np.empty(len(rank) + rare.sum(), np.uint16)
  units[first] = np.where(rare, SINGLES + high, rank)
  units[first[rare] + 1] = SINGLES + HIGHS + low[rare]
  return units

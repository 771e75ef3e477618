"""What the embedded checker knows about a (document, sentence) pair: one row of numbers.

Word rules of the lexical instrument and the cosines between word pieces. All of
it is plain NumPy on the host, over arrays of one sentence's size.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from asc_jax.checkers import lexical
from asc_jax.checkers.encoder import Pieces

NAMES = (
  "recall",  # share of content words in the document
  "stem_recall",  # the same, without endings
  "idf_recall",  # weighted by rarity
  "bigram_recall",
  "trigram_recall",
  "local_recall",  # idf_recall in the best stretch of the document
  "longest_run",  # longest verbatim run of words, over the sentence's words
  "number_missing",  # whether a number is absent from the document
  "numbers_missing",  # share of the sentence's words that are such numbers
  "name_missing",  # the same for capitalised words
  "names_missing",
  "negated",  # a negation in the sentence and none in the best stretch
  "words",  # log of the sentence's words
  "document_words",
  "cosine_mean",  # best cosine in the document, over the sentence's pieces
  "cosine_min",
  "cosine_low",  # mean of the lowest quarter
  "cosine_idf",
  "cosine_missing",  # mean over pieces of content words that are not in the document
  "missing_weight",  # sum of rarity x (1 - cosine) over those, over the sum of rarity
  "cosine_local",  # cosine_idf in the best stretch of pieces
  "cosine_pooled",  # of the mean vectors of the sentence and of the best stretch
)

_FIRST_WORD = 1996  # WordPiece's whole words begin here, in falling order of frequency
_RAREST = float(np.log(30522 - _FIRST_WORD))
_NEGATIONS = frozenset(
  ("no", "not", "never", "none", "nor", "neither", "without", "cannot", "nothing", "nobody")
)
_STRETCH_WORDS = 40
_STRETCH_PIECES = 32  # a stretch of pieces is two blocks of this many


class _Word(NamedTuple):
  text: str
  stem: str
  weight: float  # rarity; 0 for words of grammar
  pieces: slice
  name: bool


def _stem(word: str) -> str:
  """Crude: enough for `opened` to meet `opens`."""
  word = word.removesuffix("'s")
  for ending in ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s", "e", "y"):
    if word.endswith(ending) and len(word) - len(ending) >= 3:
      return word[: -len(ending)]
  return word


def _read(text: str, pieces: Pieces) -> list[_Word]:
  """The text's words with their pieces; rarity comes from the vocabulary's order."""
  starts, ends = pieces.spans[:, 0], pieces.spans[:, 1]
  found = []
  for match in lexical.spans(text):
    word = lexical.normalise(match.group())
    first, last = (
      np.searchsorted(ends, match.start(), "right"),
      np.searchsorted(starts, match.end()),
    )
    ids = pieces.ids[first:last]
    rarity = float(np.log(max(ids[0] - _FIRST_WORD, 1) + 1)) if len(ids) == 1 else _RAREST
    plain = word in lexical.STOP_WORDS
    raw = match.group()
    name = raw[0].isupper() and not plain and bool(text[: match.start()].strip(" \"'“‘([*-•\n"))
    found.append(_Word(word, _stem(word), 0.0 if plain else rarity, slice(first, last), name))
  return found


def _negates(words: list[str]) -> bool:
  return any(w in _NEGATIONS or w.endswith("n't") for w in words)


class Document:
  """What is computed once for all sentences of a document."""

  def __init__(self, text: str, pieces: Pieces):
    self.pieces = pieces
    words = lexical.words(text)
    self.words = words
    self.known = set(words)
    self.stems = [_stem(w) for w in words]
    self.known_stems = set(self.stems)
    self.bigrams = set(itertools.pairwise(words))
    self.trigrams = set(zip(words, words[1:], words[2:], strict=False))
    self.text = " " + " ".join(words) + " "
    half = _STRETCH_WORDS // 2
    starts = range(0, max(len(words) - half, 1), half)
    self.stretches = [set(self.stems[s : s + _STRETCH_WORDS]) for s in starts]
    self.negated = [_negates(words[s : s + _STRETCH_WORDS]) for s in starts]
    self.block_starts = np.arange(0, len(pieces.ids), _STRETCH_PIECES)
    pooled = np.add.reduceat(pieces.vectors, self.block_starts, axis=0)
    pooled = _pairs(pooled, np.add)
    self.pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)  # [stretches, D]


def _pairs(blocks: np.ndarray, combine: np.ufunc) -> np.ndarray:
  """Joins each two neighbours of the first axis; a single block stays."""
  return combine(blocks[:-1], blocks[1:]) if len(blocks) > 1 else blocks


def _share(grams: list, known: set) -> float:
  return sum(g in known for g in grams) / len(grams) if grams else 1.0


def _longest_run(words: list[str], text: str) -> int:
  """The most successive words that stand in `text` (words between spaces)."""
  best, start = 0, 0
  for end in range(1, len(words) + 1):
    while start < end and f" {' '.join(words[start:end])} " not in text:
      start += 1
    best = max(best, end - start)
  return best


def row(doc: Document, sentence: str, pieces: Pieces, cosines: np.ndarray) -> np.ndarray:
  """The features of one pair.

  Args:
    doc: the document.
    sentence: the text under test, not blank.
    pieces: its word pieces.
    cosines: [n, M], of each of its pieces with each of the document's.

  Returns:
    float32[len(NAMES)].
  """
  words = _read(sentence, pieces)
  plain = [w.text for w in words]
  content = [w for w in words if w.weight] or [w._replace(weight=1.0) for w in words]
  weights = np.array([w.weight for w in content])
  total = weights.sum()
  found = np.array([w.text in doc.known for w in content])
  stem_found = np.array([w.stem in doc.known_stems for w in content])
  local = [sum(w.weight for w in content if w.stem in s) / total for s in doc.stretches]
  stretch = int(np.argmax(local))
  numbers = [w for w in words if w.text[0].isdigit() and w.text not in doc.known]
  names = [w for w in words if w.name and w.stem not in doc.known_stems]

  piece_weight = np.full(len(pieces.ids), 0.1)
  for w in content:
    piece_weight[w.pieces] = w.weight / max(w.pieces.stop - w.pieces.start, 1)
  piece_weight /= piece_weight.sum()
  best = cosines.max(axis=1)  # [n]
  low = np.sort(best)[: -(-len(best) // 4)]
  per_word = np.array(
    [best[w.pieces].mean() if w.pieces.stop > w.pieces.start else 1.0 for w in content]
  )
  missing = ~stem_found
  blocks = np.maximum.reduceat(cosines, doc.block_starts, axis=1)  # [n, blocks]
  local_cosine = (piece_weight @ _pairs(blocks.T, np.maximum).T).max()
  mean = pieces.vectors.mean(axis=0)
  return np.array(
    [
      found.mean(),
      stem_found.mean(),
      weights @ stem_found / total,
      _share(list(itertools.pairwise(plain)), doc.bigrams),
      _share(list(zip(plain, plain[1:], plain[2:], strict=False)), doc.trigrams),
      local[stretch],
      _longest_run(plain, doc.text) / len(plain),
      bool(numbers),
      len(numbers) / len(plain),
      bool(names),
      len(names) / len(plain),
      _negates(plain) and not doc.negated[stretch],
      np.log1p(len(plain)),
      np.log1p(len(doc.words)),
      best.mean(),
      best.min(),
      low.mean(),
      piece_weight @ best,
      per_word[missing].mean() if missing.any() else 1.0,
      weights[missing] @ (1 - per_word[missing]) / total,
      local_cosine,
      (doc.pooled @ mean).max() / np.linalg.norm(mean),
    ],
    np.float32,
  )

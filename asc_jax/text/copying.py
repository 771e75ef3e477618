"""Verbatim matches between an answer and its passages, word by word.

A word of an answer is copied iff it lies in a run of at least `n` words (five in
the paper) that stands in one passage in the same order; no match crosses from a
passage into the next.

What a word is, the same on both sides: a run of letters and digits with its
apostrophes (`don't`), or a number with its points and commas (`1,250.5`). Case and
punctuation do not count: a capital or a comma makes no copy one's own, and the
spacing and marks of tokenised corpora (`` `` ``, `` , ``, `do n't`, `-LRB-`,
`on - demand`) match running text. Citations (`[1]`) are no words.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Span = tuple[int, int]

_NO_WORD = re.compile(r"-[LR][RSC]B- | \[ \s* \d+ (?: \s* , \s* \d+ )* \s* \]", re.VERBOSE)
_SPLIT_WORD = re.compile(r"\s (?= n['’]t \b | ['’] (?: s | re | ve | ll | d | m ) \b )", re.VERBOSE)
_JOINT = "\0"  # stands where tokenisation split a word
_WORD = re.compile(
  rf"\d+ (?: [.,] \d+ )+ (?! [^\W_] ) | [^\W_]+ (?: [{_JOINT}'’]+ [^\W_]+ )*", re.VERBOSE
)


class Match(NamedTuple):
  """Character offsets of one run of copied words in the answer and in a passage."""

  start: int
  end: int
  passage: int
  passage_start: int
  passage_end: int


def words(text: str) -> tuple[list[str], list[Span]]:
  """The normalised words of a text and where they stand.

  Examples:
    >>> words("He does n't pay 1,250.5 [2].")[0]
    ['he', "doesn't", 'pay', '1,250.5']
  """
  text = _undo_tokenisation(text)
  return _normalised(text).split(), [match.span() for match in _WORD.finditer(text)]


def copy_mask(text: str, passages: Sequence[str], n: int = 5) -> np.ndarray:
  """Marks the words of a text that were copied.

  Args:
    text: an answer.
    passages: the texts that it may copy from.
    n: words of a verbatim match.

  Returns:
    bool, one entry a word (`words`).

  Examples:
    >>> copy_mask("It is the Big, red dog", ["the big red dog slept"], n=3)
    array([False, False,  True,  True,  True,  True])
  """
  return _mask(words(text)[0], passages, n)


def copy_share(text: str, passages: Sequence[str], n: int = 5) -> float:
  """The share of copied words, 0 for a text without words."""
  mask = copy_mask(text, passages, n)
  return float(mask.mean()) if mask.size else 0.0


def sentence_shares(
  text: str, spans: Sequence[Span], passages: Sequence[str], n: int = 5
) -> list[float]:
  """The share of copied words of each sentence, from one mask over the whole text."""
  return [
    float(mask.mean()) if mask.size else 0.0 for _, mask in _by_sentence(text, spans, passages, n)
  ]


def sentences_copied(
  text: str, spans: Sequence[Span], passages: Sequence[str], threshold: float = 0.5, n: int = 5
) -> list[bool]:
  """Which sentences count as copied.

  A sentence is copied iff the share of its words in the mask of the whole text is
  at least `threshold`; one of fewer than `n` words iff it stands verbatim in a
  passage; one without words never.

  Args:
    text: an answer.
    spans: its sentences.
    passages: the texts that it may copy from.
    threshold: the paper does not give it; 0.5 is this project's choice.
    n: words of a verbatim match.
  """
  sources = [_source(passage) for passage in passages]
  copied = []
  for sentence, mask in _by_sentence(text, spans, passages, n):
    if len(sentence) < n:
      copied.append(bool(sentence) and _stands_in(sentence, sources))
    else:
      copied.append(bool(mask.mean() >= threshold))
  return copied


def count_short(text: str, spans: Sequence[Span], n: int = 5) -> int:
  """Sentences of fewer than `n` words, to which the verbatim rule applies."""
  return sum(len(words(text[start:end])[0]) < n for start, end in spans)


def matches(text: str, passages: Sequence[str], n: int = 5) -> list[Match]:
  """Copied runs for display: in order, not overlapping, together the whole mask.

  Each run is the longest match that starts at its first word; where it overlaps
  the run before it, its beginning is left out.

  Examples:
    >>> matches("So the big red dog ran", ["A cat.", "See: the big red dog!"], n=3)
    [Match(start=3, end=18, passage=1, passage_start=5, passage_end=20)]
  """
  own, spans = words(text)
  places = [words(passage)[1] for passage in passages]
  sources = [_source(passage) for passage in passages]
  found: list[Match] = []
  first = covered = 0  # words of the answer before `covered` are dealt with
  while first + n <= len(own):
    length = n - 1
    while first + length < len(own) and _stands_in(own[first : first + length + 1], sources):
      length += 1
    if length < n:
      first += 1
      continue
    passage, place = _where(own[first : first + length], sources)
    skip = max(covered - first, 0)
    covered = first + length
    found.append(
      Match(
        start=spans[first + skip][0],
        end=spans[covered - 1][1],
        passage=passage,
        passage_start=places[passage][place + skip][0],
        passage_end=places[passage][place + length - 1][1],
      )
    )
    first = covered - n + 1  # whatever reaches further does so from here
  return found


def _undo_tokenisation(text: str) -> str:
  """Blanks what is no word and closes split words, at the same length."""
  text = _NO_WORD.sub(lambda match: " " * len(match[0]), text.replace(_JOINT, " "))
  return _SPLIT_WORD.sub(_JOINT, text)


def _normalised(text: str) -> str:
  joined = " ".join(_WORD.findall(text))
  return joined.replace(_JOINT, "").replace("’", "'").casefold()


class _Source(NamedTuple):
  """A passage's words, each between two spaces, so that `in` finds runs of words."""

  joined: str
  vocabulary: frozenset[str]


@functools.lru_cache(maxsize=512)
def _source(passage: str) -> _Source:
  text = _normalised(_undo_tokenisation(passage))
  return _Source(f" {text} ", frozenset(text.split()))


def _stands_in(run: Sequence[str], sources: Sequence[_Source]) -> bool:
  needle = f" {' '.join(run)} "
  return any(needle in source.joined for source in sources)


def _mask(own: Sequence[str], passages: Sequence[str], n: int) -> np.ndarray:
  sources = [_source(passage) for passage in passages]
  mask = np.zeros(len(own), bool)
  known = 0  # words in a row that some passage has anywhere: most runs end here, cheaply
  for last, word in enumerate(own, start=1):
    known = known + 1 if any(word in source.vocabulary for source in sources) else 0
    if known >= n and _stands_in(own[last - n : last], sources):
      mask[last - n : last] = True
  return mask


def _where(run: Sequence[str], sources: Sequence[_Source]) -> tuple[int, int]:
  """The first passage with the run, and the number of its first word there."""
  needle = f" {' '.join(run)} "
  number = next(i for i, source in enumerate(sources) if needle in source.joined)
  joined = sources[number].joined
  return number, joined.count(" ", 0, joined.index(needle))


def _by_sentence(
  text: str, spans: Sequence[Span], passages: Sequence[str], n: int
) -> Iterator[tuple[list[str], np.ndarray]]:
  """The words of each sentence and their part of the whole text's mask."""
  own, places = words(text)
  mask = _mask(own, passages, n)
  starts = np.array([start for start, _ in places], np.int64)
  for start, end in spans:
    low, high = np.searchsorted(starts, (start, end))
    yield own[low:high], mask[low:high]

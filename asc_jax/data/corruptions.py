"""Sentences made false by a small change, to teach a checker what to look at."""

from __future__ import annotations

import random
import re

_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # within a sentence, so that it is no first word
_AUXILIARY = re.compile(
  r"\b(is|are|was|were|has|have|had|can|could|will|would|did|does)\b( not\b)?"
)


def corrupt(sentence: str, document: str, rng: random.Random) -> str | None:
  """The sentence with another number, another name or the opposite verb; None where none fits.

  Numbers and names come from the document where it has others.

  Args:
    sentence: what the document supports.
    document: the text that supports it.
    rng: chooses the kind of change, its place and what is put there.

  Examples:
    >>> corrupt("It was built.", "It was built.", random.Random(0))
    'It was not built.'
    >>> corrupt("It closed in 1932.", "Open from 1911 to 1932.", random.Random(0))
    'It closed in 1911.'
    >>> corrupt("Bees dance.", "Bees dance.", random.Random(0))
  """
  kinds = [_other_number, _other_name, _opposite]
  rng.shuffle(kinds)
  return next((text for kind in kinds if (text := kind(sentence, document, rng))), None)


def _other_number(sentence: str, document: str, rng: random.Random) -> str | None:
  found = list(_NUMBER.finditer(sentence))
  if not found:
    return None
  match = rng.choice(found)
  others = sorted(
    n for n in set(_NUMBER.findall(document)) if len(n) == len(match[0]) and n not in sentence
  )
  other = rng.choice(others) if others else str(int(match[0]) + rng.randint(1, 9))
  return _put(sentence, match, other)


def _other_name(sentence: str, document: str, rng: random.Random) -> str | None:
  found = list(_NAME.finditer(sentence))
  others = sorted({n for n in _NAME.findall(document) if n not in sentence})
  return _put(sentence, rng.choice(found), rng.choice(others)) if found and others else None


def _opposite(sentence: str, document: str, rng: random.Random) -> str | None:
  found = list(_AUXILIARY.finditer(sentence))
  if not found:
    return None
  match = rng.choice(found)
  return _put(sentence, match, match[1] if match[2] else f"{match[1]} not")


def _put(sentence: str, match: re.Match[str], text: str) -> str:
  return sentence[: match.start()] + text + sentence[match.end() :]

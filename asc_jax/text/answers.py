"""Short-answer matching: ALCE's normalisation, ASQA's exact match, alias match."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
  """ALCE's answer normalisation.

  Lower case, no ASCII punctuation, no articles, single spaces, in this order.

  Examples:
    >>> normalise("The  Beatles' (first) hit: a song!")
    'beatles first hit song'
  """
  return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def asqa_exact_match(answer: str, qa_pairs: Sequence[Sequence[str]]) -> float | None:
  """ASQA's exact match: the share of sub-questions that the answer covers.

  A sub-question is covered iff one of its short answers, normalised, is a
  substring of the normalised answer; as in ALCE, word boundaries do not count. A
  short answer of which normalisation leaves nothing covers nothing.

  Args:
    answer: a long answer.
    qa_pairs: the short answers of each sub-question.

  Returns:
    The share in [0, 1], None for a question without sub-questions.

  Examples:
    >>> asqa_exact_match("It opened in May 1904.", [["1904", "May, 1904"], ["1911"]])
    0.5
  """
  if not qa_pairs:
    return None
  text = normalise(answer)
  covered = [any(short and short in text for short in map(normalise, pair)) for pair in qa_pairs]
  return sum(covered) / len(covered)


def alias_match(answer: str, aliases: Sequence[str]) -> bool:
  """Whether an answer contains one of the aliases, whole words only, both normalised.

  Examples:
    >>> alias_match("It was the Beatles.", ["Beatles", "The Fab Four"])
    True
    >>> alias_match("In 1904", ["4"])
    False
  """
  text = f" {normalise(answer)} "
  return any(f" {alias} " in text for alias in map(normalise, aliases) if alias)

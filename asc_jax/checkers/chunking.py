"""Cuts a document into the pieces that an instrument reads one at a time."""

from __future__ import annotations

import re

from asc_jax.text import sentences

_WORD = re.compile(r"\S+")


def word_chunks(text: str, size: int) -> list[str]:
  """Whole sentences up to `size` white-space words; MiniCheck's rule.

  A sentence longer than that is cut at the limit, so that no chunk is longer.

  >>> word_chunks("One two three. Four five. Six seven eight nine ten.", 4)
  ['One two three.', 'Four five.', 'Six seven eight nine', 'ten.']
  """
  parts: list[tuple[int, int, int]] = []  # start, end, words
  for start, end in sentences.split(text):
    words = [m.span() for m in _WORD.finditer(text, start, end)]
    for at in range(0, len(words), size):
      inside = words[at : at + size]
      parts.append((inside[0][0], inside[-1][1], len(inside)))
  chunks: list[tuple[int, int, int]] = []
  for start, end, count in parts:
    if chunks and chunks[-1][2] + count <= size:
      chunks[-1] = (chunks[-1][0], end, chunks[-1][2] + count)
    else:
      chunks.append((start, end, count))
  return [text[start:end] for start, end, _ in chunks]


def sentence_chunks(text: str, words: int) -> list[str]:
  """Equal numbers of sentences, about `words` words each; AlignScore's rule.

  n = words of the text // `words` + 1, then max(sentences // n, 1) sentences a chunk.

  >>> sentence_chunks("One two. Three. Four five six. Seven.", 4)
  ['One two. Three.', 'Four five six. Seven.']
  """
  spans = sentences.split(text)
  n = len(text.split()) // words + 1
  size = max(len(spans) // n, 1)
  groups = [spans[i : i + size] for i in range(0, len(spans), size)]
  return [text[group[0][0] : group[-1][1]] for group in groups]

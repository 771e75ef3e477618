"""A completion's thinking block and answer block, and the sentences of both."""

from __future__ import annotations

import re
from typing import NamedTuple

from asc_jax.text import sentences

Span = tuple[int, int]


class Blocks(NamedTuple):
  """Character spans between the tags.

  Attributes:
    thinking: None where the completion has no opening tag of it.
    answer: None where the completion never leaves the thinking block.
    well_formed: both blocks stand closed, thinking first, each tag once.
  """

  thinking: Span | None
  answer: Span | None
  well_formed: bool


def find(text: str, *, think_tag: str = "think", answer_tag: str = "answer") -> Blocks:
  """Finds the blocks; what is cut off or untagged is read as far as it goes.

  A block without its closing tag ends where the other begins, or with the text. Without an
  answer tag, everything after the thinking block is the answer, so that a completion
  without tags is all answer: it costs the format score only.

  Examples:
    >>> find("<think>Hm.</think> <answer>Ulm</answer>")
    Blocks(thinking=(7, 10), answer=(27, 30), well_formed=True)
    >>> find("It is Ulm.")
    Blocks(thinking=None, answer=(0, 10), well_formed=False)
    >>> find("<think>It may be Ulm")
    Blocks(thinking=(7, 20), answer=None, well_formed=False)
  """
  marks = [
    [m.span() for m in re.finditer(re.escape(tag), text)]
    for tag in (f"<{think_tag}>", f"</{think_tag}>", f"<{answer_tag}>", f"</{answer_tag}>")
  ]
  once = all(len(spans) == 1 for spans in marks)
  well_formed = once and sorted(marks) == marks
  thinking, at = None, 0
  if marks[0]:
    start = marks[0][0][1]
    end, at = _first([*marks[1], *marks[2]], start, text)
    thinking = (start, end)
    if (end, at) in marks[2]:  # left for the answer to begin with
      at = end
  opened = [m for m in marks[2] if m[0] >= at or (thinking and m[1] <= thinking[0])]
  if opened:
    start = opened[0][1]
  elif thinking is not None and thinking[1] == len(text):
    return Blocks(thinking, None, False)
  else:
    start = at
  return Blocks(thinking, (start, _first([*marks[3], *marks[0]], start, text)[0]), well_formed)


def _first(marks: list[Span], start: int, text: str) -> Span:
  """The first mark from `start` on, else the end of the text."""
  return min((m for m in marks if m[0] >= start), default=(len(text), len(text)))


def sentence_spans(text: str, blocks: Blocks) -> list[Span]:
  """The sentences of both blocks, without tags and white space around them."""
  spans = []
  for block in (blocks.thinking, blocks.answer):
    if block is not None:
      offset, end = block
      spans += [(offset + a, offset + b) for a, b in sentences.split(text[offset:end])]
  return spans

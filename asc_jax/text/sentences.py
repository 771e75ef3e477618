"""Sentences of an answer as character spans.

The splitter is nupunkt's Punkt model, the best of three libraries on 60
hand-marked answers (docs/text.md). These rules are added, for list-like answers
and for faults that were reported of public splitters:

1. A line break ends a sentence, so each item of a list is one. Its marker
   (`*`, `1.`, `b)`) is part of it and never a sentence by itself.
2. Full-width stops (`。！？`), dandas and the Arabic question mark end a sentence
   with or without a space behind them. A quotation that more text follows at
   once (`“水位在上升。”工程师说。`) ends it only where a colon introduced it.
3. Closing quotes, brackets and commas stay with the sentence that they close. A
   quotation that ends in a stop and goes on in lower case ends nothing.
4. A bracketed note of at most five words without a stop of its own belongs to
   the sentence before it: `[sic]`, `[1][2]`, `(Passage 2)`. A number or letter in
   round brackets, `(2)`, marks an item and belongs to what follows; so does a
   bracket that goes on in lower case.
5. What holds no letter or digit (`---`) belongs to the sentence before it, or
   to the first. A text of nothing else is one sentence.

The last sentence needs no closing mark.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import nupunkt

Span = tuple[int, int]

_UNSPACED_STOP = re.compile(r"[。！？｡؟۔।॥]+([”’»›」』）］】\"'）]*)")
_OPENING = '“‘「『«"'
_INVERTED_QUOTE = re.compile(r"[.!?…][“«](?=\s)")  # „Ja.“ and »Ja.« close like this
_CLOSING = re.compile(r"[”»›」』）］】)\]}] | ’(?!\w) | “(?!\S) | ''(?!\w) | [,;:]", re.VERBOSE)
_NOTE = re.compile(r"\[[^\[\]]*[^\[\].!?…]\] | \((?!\w{1,3}\))[^()]*[^().!?…]\)", re.VERBOSE)
_NOTE_WORDS = 5
_QUOTED_STOP = re.compile(r"[.!?…] \s* (?: [”’“»«\"'] | '' ) \s* \Z", re.VERBOSE)
_MARKER = re.compile(r"\W* (?: \d{1,3} | [A-Za-z] | [ivx]+ ) (?: \[\d+\] )? [.)]+ \W*", re.VERBOSE)
_WORD = re.compile(r"[^\W_]")


def is_blank(text: str) -> bool:
  """Whether a text has no letter and no digit, hence says nothing."""
  return not any(c.isalnum() for c in text)


def split(text: str) -> list[Span]:
  """Splits a text into sentences without changing it.

  Args:
    text: any string.

  Returns:
    Spans (start, end) that rise strictly, do not overlap and exclude the white
    space around sentences; none for an empty or blank text.

  Examples:
    >>> text = "It rose by 3.5 metres. [1] Was that much?  Yes"
    >>> [text[start:end] for start, end in split(text)]
    ['It rose by 3.5 metres. [1]', 'Was that much?', 'Yes']
  """
  pieces: list[Span] = []
  offset = 0
  for line in text.splitlines(keepends=True):
    starts = [0, *_cuts(line), len(line)]
    for start, end in itertools.pairwise(starts):
      piece = line[start:end]
      if not piece.isspace():
        lead = len(piece) - len(piece.lstrip())
        pieces.append((offset + start + lead, offset + start + len(piece.rstrip())))
    offset += len(line)
  return _join_fragments(text, pieces)


def own_whitespace(text: str, spans: Sequence[Span]) -> list[Span]:
  """Widens the spans so that they tile the text.

  White space goes to the sentence before it, leading white space to the first.

  Examples:
    >>> own_whitespace(" It is old. Yes. ", [(1, 11), (12, 16)])
    [(0, 12), (12, 17)]
  """
  if not spans:
    return []
  starts = [0, *(start for start, _ in spans[1:]), len(text)]
  return list(itertools.pairwise(starts))


def _cuts(line: str) -> Iterator[int]:
  """Where the second and later sentences of one line start."""
  candidates = {start for start, _ in nupunkt.sent_spans(line)[1:]}
  candidates |= {match.end() for match in _INVERTED_QUOTE.finditer(line)}
  candidates |= {m.end() for m in _UNSPACED_STOP.finditer(line) if not _speaker_follows(line, m)}
  last = 0
  for candidate in sorted(candidates):
    cut, goes_on = _past_closing(line, candidate)
    rest = line[cut:]
    if cut <= last or goes_on or not rest.strip():
      continue
    if not (rest[0].islower() and _QUOTED_STOP.search(line[last:cut])):
      last = cut
      yield cut


def _speaker_follows(line: str, stop: re.Match[str]) -> bool:
  """Whether a full-width stop closes a quotation inside a sentence (rule 2)."""
  followed = line[stop.end() : stop.end() + 1].strip()
  opened = max(line.rfind(mark, 0, stop.start()) for mark in _OPENING)
  return bool(stop[1] and followed) and line[: max(opened, 0)].rstrip()[-1:] not in ("：", ":")


def _past_closing(line: str, cut: int) -> tuple[int, bool]:
  """Moves a cut behind white space, closing marks and notes (rules 3 and 4).

  Returns:
    The new cut, and whether a comma or colon was passed: no sentence ends there.
  """
  goes_on = False
  while True:
    rest = line[cut:]
    closing, note = _CLOSING.match(rest), _NOTE.match(rest)
    if rest[:1].isspace():
      cut += len(rest) - len(rest.lstrip())
    elif closing:
      goes_on = goes_on or closing[0] in ",;:"
      cut += closing.end()
    elif rest[:1] == '"' and line.count('"', 0, cut) % 2:  # one is open
      cut += 1
    elif (
      note and len(note[0].split()) <= _NOTE_WORDS and not rest[note.end() :].lstrip()[:1].islower()
    ):
      cut += note.end()
    else:
      return cut, goes_on


def _join_fragments(text: str, pieces: Sequence[Span]) -> list[Span]:
  """Joins markers to what follows and wordless pieces to what they follow."""
  joined: list[Span] = []
  pending: int | None = None  # start of a marker, or of a wordless beginning
  for start, end in pieces:
    first = start if pending is None else pending
    wordless = not _WORD.search(text, start, end)
    if wordless and joined and pending is None:
      joined[-1] = (joined[-1][0], end)
    elif wordless or _MARKER.fullmatch(text, start, end):
      pending = first
    else:
      joined.append((first, end))
      pending = None
  if pending is not None:  # nothing followed
    last = pieces[-1][1]
    if joined:
      joined[-1] = (joined[-1][0], last)
    else:
      joined.append((pending, last))
  return joined

"""QuoteSum (google-research-datasets/QuoteSum): answers that mark what they quote.

`v1/*.jsonl`, one object a line: `{qid, unique_id, question, summary, title1..8,
source1..8, short_ans_1..8}`, unused slots "". Several people answered each question,
a row each. In `summary`, "[ 2 span ]" is copied from source 2; the rest is authored.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from asc_jax.data import files
from asc_jax.types import Example, Passage

_QUOTE = re.compile(r"\[ (\d+) (.*?) \](?=(\s[.,;:!?)])?)", re.DOTALL)


class Quoted(NamedTuple):
  """A human answer: its plain text, and which of its spans are quotations."""

  id: str
  question: str
  passages: tuple[Passage, ...]
  answer: str
  quotes: tuple[tuple[int, int, int], ...]  # start, end, index into passages


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads one example a question, with all its answers; marks are removed."""
  rows = [(row, _quoted(row)) for file in files.find(path, "*.jsonl") for row in files.rows(file)]
  answers: dict[str, list[str]] = {}
  for row, quoted in rows:
    answers.setdefault(row.take("qid", str), []).append(quoted.answer)
  for row, quoted in rows:
    qid = row.take("qid", str)
    if qid not in answers:
      dropped["one more answer to an earlier question (kept there)"] += 1
      continue
    short = (row.take(f"short_ans_{i}", str).strip() for i in range(1, 9))
    yield Example(
      id=qid,
      corpus="quotesum",
      question=quoted.question,
      passages=quoted.passages,
      answers=tuple(dict.fromkeys(a for a in answers.pop(qid) if a)),
      aliases=tuple(dict.fromkeys(s for s in short if s)),
    )


def quoted(path: str | pathlib.Path | None) -> list[Quoted]:
  """Reads every answer with its quotations, to hold copy matching against."""
  return [_quoted(row) for file in files.find(path, "*.jsonl") for row in files.rows(file)]


def _quoted(row: files.Row) -> Quoted:
  slots = [(row.take(f"title{i}", str), row.take(f"source{i}", str).strip()) for i in range(1, 9)]
  index = {}  # a source's number -> its place among the non-empty ones
  passages: list[Passage] = []
  for number, (title, text) in enumerate(slots, 1):
    if text:
      index[number] = len(passages)
      passages.append(Passage(title.strip(), text))
  answer, quotes = _unmark(row.take("summary", str), index)
  return Quoted(
    row.take("unique_id", str), row.take("question", str).strip(), tuple(passages), answer, quotes
  )


def _unmark(summary: str, index: dict[int, int]) -> tuple[str, tuple[tuple[int, int, int], ...]]:
  """Removes the marks and says where the quotations lie in what is left.

  >>> _unmark("It was [ 2 built in 1904 ] .", {2: 1})
  ('It was built in 1904.', ((7, 20, 1),))
  """
  answer, quotes, last = "", [], 0
  for match in _QUOTE.finditer(summary):
    answer += summary[last : match.start()]
    if int(match[1]) in index:
      quotes.append((len(answer), len(answer) + len(match[2]), index[int(match[1])]))
    answer += match[2]
    last = match.end() + bool(match[3])  # a stop goes back to the word before the bracket
  return (answer + summary[last:]).rstrip(), tuple(quotes)

"""ASQA, in the three layouts in which it is published.

* `ASQA.json` (google-research/language): `{"train"|"dev": {id: {ambiguous_question,
  qa_pairs: [{question, short_answers, context, wikipage}], annotations:
  [{long_answer, knowledge: [{content, wikipage}]}]}}}`. The passages are what the
  annotators took their answers from; one of the two annotators often noted none.
* ALCE's evaluation files: an array of `{question, qa_pairs, docs: [{title, text}],
  answer}` with retrieved passages, best first.
* FineGrainedRLHF's qa_feedback: an array of `{question, passages, ...}` with passages
  as `{content, wikipage}` and a list of answers, or as `[title, sentence, ...]` with
  `gold` and hand-marked errors in "prediction 1" (`feedback` reads those).
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from asc_jax.data import files
from asc_jax.data.corpora.ragtruth import Span
from asc_jax.types import Example, Passage, UserError

# Error types of qa_feedback that say "the passages do not support this".
UNSUPPORTED = frozenset({"Wrong-Grounding", "Unverifiable"})


class Feedback(NamedTuple):
  """A model's answer with the errors that people marked in it."""

  question: str
  passages: tuple[Passage, ...]
  answer: str
  spans: tuple[Span, ...]  # sorted by start


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads a file of any of the three layouts, or a folder of such files.

  In a folder the same question may stand in two files: the first file in
  alphabetical order wins.
  """
  seen: set[str] = set()
  for file in files.find(path, "*.json", exclude="prompts"):
    for example in map(_example, _questions(file)):
      if example.question in seen:
        dropped["repeats an earlier question"] += 1
      else:
        seen.add(example.question)
        yield example


def feedback(path: str | pathlib.Path | None) -> list[Feedback]:
  """Reads qa_feedback's hand-marked answers from a file or folder."""
  found = []
  for file in files.find(path, "*feedback*.json"):
    for row in _questions(file):
      if "feedback" not in row.value:
        continue
      marks = files.Row(f"{row.where}, feedback", row.take("feedback", dict))
      answer = row.take("prediction 1", str)
      spans = [
        Span(e.take("start", int), e.take("end", int), e.take("error type", str))
        for e in marks.objects("errors")
      ]
      for span in spans:
        if not 0 <= span.start <= span.end <= len(answer):
          raise UserError(
            f"{row.where}: an error span [{span.start}, {span.end}) lies outside prediction 1"
          )
      found.append(
        Feedback(row.take("question", str), _passages(row), answer, tuple(sorted(spans)))
      )
  return found


def _questions(file: pathlib.Path) -> list[files.Row]:
  """The question rows of any layout, with their key as `id` where they have one."""
  rows = files.rows(file)
  if len(rows) != 1 or "question" in rows[0].value:
    return rows
  parts = rows[0].value
  if not set(parts) <= {"train", "dev", "test"}:
    raise UserError(
      f"{file}: expected ASQA.json's train and dev, ALCE's or qa_feedback's array, found an object with {', '.join(map(repr, list(parts)[:4]))}"
    )
  found = []
  for part in parts:
    for id_, row in rows[0].take(part, dict).items():
      where = f"{file}, {part}[{id_}]"
      if not isinstance(row, dict):
        raise UserError(f"{where}: expected an object")
      found.append(files.Row(where, {**row, "id": id_}))
  return found


def _example(row: files.Row) -> Example:
  name = "ambiguous_question" if "ambiguous_question" in row.value else "question"
  question = row.take(name, str).strip()
  id_ = row.value.get("id") or row.value.get("sample_id") or files.stable_id(question)
  pairs = row.objects("qa_pairs") if "qa_pairs" in row.value else []
  return Example(
    id=str(id_),
    corpus="asqa",
    question=question,
    passages=_passages(row),
    answers=_answers(row),
    qa_pairs=tuple(tuple(p.strings("short_answers")) for p in pairs),
  )


def _answers(row: files.Row) -> tuple[str, ...]:
  found: list[str] = []
  if "gold" in row.value:
    found = [row.take("gold", str, type(None)) or ""]
  elif "annotations" in row.value:
    found = [a.take("long_answer", str, type(None)) or "" for a in row.objects("annotations")]
  elif "answer" in row.value:
    answer = row.take("answer", str, list, type(None))
    found = row.strings("answer") if isinstance(answer, list) else [answer or ""]
  return tuple(dict.fromkeys(a.strip() for a in found if a.strip()))


def _passages(row: files.Row) -> tuple[Passage, ...]:
  kept = []
  for title, text in _titled_texts(row):
    title = (title or "").strip()
    text = (text or "").strip().removeprefix(f"{title}\n\n")  # qa_feedback repeats it
    if text:
      kept.append(Passage(title, text))
  return tuple(dict.fromkeys(kept))


def _titled_texts(row: files.Row) -> Iterator[tuple[str | None, str | None]]:
  if "docs" in row.value:
    for doc in row.objects("docs"):
      yield doc.take("title", str, type(None)), doc.take("text", str)
  elif "passages" in row.value:
    for passage in row.take("passages", list, type(None)) or ():
      if isinstance(passage, dict):
        note = files.Row(row.where, passage)
        yield note.take("wikipage", str, type(None)), note.take("content", str)
      else:
        title, *lines = files.Row(row.where, {"passages": passage}).strings("passages") or [""]
        yield title, " ".join(lines)
  else:
    for annotation in row.objects("annotations"):
      for note in annotation.objects("knowledge"):
        yield note.take("wikipage", str, type(None)), note.take("content", str, type(None))

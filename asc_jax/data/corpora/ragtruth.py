"""RAGTruth (ParticleMedia/RAGTruth): responses with human error spans.

Two JSON-lines files joined by `source_id`. `source_info.jsonl`: `{source_id,
task_type, source, source_info}`, where `source_info` is `{question, passages}` with
all passages in one string (QA), the article (Summary) or a business record with
nulls and nested fields (Data2txt). `response.jsonl`: `{id, source_id, model, labels:
[{start, end, text, label_type, ...}], split, quality, response}`; each source has up
to six responses. Spans are half-open character offsets, unsorted, and may overlap.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from asc_jax.data import files
from asc_jax.data.documents import document
from asc_jax.types import Example, Passage, UserError

_SUMMARY = "Summarise the article."
_DATA2TXT = "Write an objective overview of this business, from its record alone."


class Span(NamedTuple):
  """An error marked by hand: `response[start:end]`, and its kind."""

  start: int
  end: int
  kind: str


class Labelled(NamedTuple):
  """A response of a model, with the errors that people marked in it."""

  id: str
  source_id: str
  task: str
  question: str
  passages: tuple[Passage, ...]
  response: str
  spans: tuple[Span, ...]  # sorted by start
  quality: str
  model: str
  split: str


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads the question-answering task."""
  return _read(path, dropped, "QA", "ragtruth")


def read_summary(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads the summaries: one article a passage, and one question for all."""
  return _read(path, dropped, "Summary", "ragtruth_summary")


def read_data2txt(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads the business overviews: the record, as JSON, is the passage."""
  return _read(path, dropped, "Data2txt", "ragtruth_data2txt")


def _read(path, dropped: Counter[str], task: str, corpus: str) -> Iterator[Example]:
  answers: dict[str, list[str]] = defaultdict(list)
  responses, refused = labelled(path)
  for reason, ids in refused.items():
    dropped[f"response: {reason}"] += len(ids)
  for response in responses:
    if response.quality == "good" and not response.spans and response.response.strip():
      answers[response.source_id].append(response.response.strip())
  for source in _sources(path).values():
    if source.task != task:
      dropped[f"task {source.task}"] += 1
      continue
    yield Example(
      id=source.id,
      corpus=corpus,
      question=source.question,
      passages=source.passages,
      answers=tuple(dict.fromkeys(answers[source.id])),
      split_key="" if task == "QA" else document(source.passages),
    )


def labelled(
  path: str | pathlib.Path | None,
) -> tuple[list[Labelled], dict[str, list[str]]]:
  """Reads the responses of all three tasks with their error spans.

  Args:
    path: a folder with both files; or the response file, next to its sources.

  Returns:
    The responses, and the ids of the refused ones by reason: a span that does not
    quote the response it points into makes all of that response's labels
    untrustworthy.
  """
  sources = _sources(path)
  found: list[Labelled] = []
  refused: dict[str, list[str]] = defaultdict(list)
  for file in files.find(path, "*response*.jsonl"):
    if "source_info" in file.name:
      continue
    for row in files.rows(file):
      id_, source_id, text = (
        str(row.take("id", str, int)),
        str(row.take("source_id", str, int)),
        row.take("response", str),
      )
      if source_id not in sources:
        refused["its source is missing"].append(id_)
        continue
      labels = row.objects("labels")
      spans = [
        Span(s.take("start", int), s.take("end", int), s.take("label_type", str)) for s in labels
      ]
      quotes = [s.take("text", str) for s in labels]
      if any(
        not 0 <= s.start < s.end or text[s.start : s.end] != quote
        for s, quote in zip(spans, quotes, strict=True)
      ):
        refused["a label's text is not what its offsets point at"].append(id_)
        continue
      source = sources[source_id]
      found.append(
        Labelled(
          id_,
          source_id,
          source.task,
          source.question,
          source.passages,
          text,
          tuple(sorted(spans)),
          row.take("quality", str),
          row.take("model", str),
          row.take("split", str),
        )
      )
  return found, dict(refused)


class _Source(NamedTuple):
  id: str
  task: str
  question: str
  passages: tuple[Passage, ...]


def _sources(path) -> dict[str, _Source]:
  folder = pathlib.Path(path) if path else None
  if folder and folder.is_file():
    folder = folder.parent
  sources: dict[str, _Source] = {}
  for file in files.find(folder, "*source_info*.jsonl"):
    for row in files.rows(file):
      source = _source(row)
      sources.setdefault(source.id, source)
  return sources


def _source(row: files.Row) -> _Source:
  id_, task = str(row.take("source_id", str, int)), row.take("task_type", str)
  if task == "QA":
    qa = files.Row(f"{row.where}, source_info", row.take("source_info", dict))
    parts = re.split(r"^passage \d+:", qa.take("passages", str), flags=re.MULTILINE)
    passages = tuple(Passage("", p.strip()) for p in parts if p.strip())
    return _Source(id_, task, qa.take("question", str).strip(), passages)
  if task == "Data2txt":
    record = row.take("source_info", dict)
    passage = Passage(str(record.get("name") or ""), json.dumps(record, ensure_ascii=False))
    return _Source(id_, task, _DATA2TXT, (passage,))
  if task == "Summary":
    article = row.take("source_info", str).strip()
    return _Source(id_, task, _SUMMARY, (Passage("", article),) if article else ())
  raise UserError(f"{row.where}: expected task_type QA, Data2txt or Summary, found {task!r}")

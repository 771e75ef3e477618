"""The packaged corpus: 40 questions written for this project.

Each has two to four short passages about places, machines and customs that do not
exist, so that no model can know the answer without reading. A few cannot be
answered from their passages and are labelled so.
"""

from __future__ import annotations

import importlib.resources
import pathlib
from collections import Counter
from collections.abc import Iterator

from asc_jax.data import files
from asc_jax.types import Example, Passage


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads the packaged questions, or a file of your own in the same format.

  One JSON object a line: `{"id", "question", "passages": [{"title", "text"}],
  "answer", "answerable"}`; `answer` is empty where there is none.
  """
  del dropped
  with importlib.resources.as_file(
    importlib.resources.files("asc_jax.data") / "quickstart" / "questions.jsonl"
  ) as packaged:
    for file in files.find(path or packaged, "*.jsonl"):
      yield from map(_example, files.rows(file))


def _example(row: files.Row) -> Example:
  passages = [(p.take("title", str), p.take("text", str)) for p in row.objects("passages")]
  answer = row.take("answer", str)
  return Example(
    id=row.take("id", str),
    corpus="quickstart",
    question=row.take("question", str),
    passages=tuple(Passage(title, text) for title, text in passages if text.strip()),
    answers=(answer,) if answer.strip() else (),
    answerable=row.take("answerable", bool),
  )

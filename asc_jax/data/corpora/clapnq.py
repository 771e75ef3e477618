"""ClapNQ (primeqa/clapnq): one gold Wikipedia passage a question.

`annotated_data/{train,dev}/*.jsonl`, one object a line: `{id, input, passages:
[{title, text, sentences}], output: [{answer, selected_sentences, meta}]}`. Several
annotators make several outputs. Unanswerable questions have an empty answer (null
in the description upstream). The text is tokenised ("over , `` he '' said .").
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator

from asc_jax.data import files
from asc_jax.types import Example, Passage


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads the answerable and the unanswerable questions of a file or folder."""
  del dropped
  for file in files.find(path, "*.jsonl"):
    yield from map(_example, files.rows(file))


def _example(row: files.Row) -> Example:
  passages = [
    (p.take("title", str, type(None)), p.take("text", str)) for p in row.objects("passages")
  ]
  written = [o.take("answer", str, type(None)) for o in row.objects("output")]
  answers = tuple(dict.fromkeys(a.strip() for a in written if a and a.strip()))
  return Example(
    id=str(row.take("id", str, int)),  # a string in the files, an integer in their description
    corpus="clapnq",
    question=row.take("input", str).strip(),
    passages=tuple(Passage(title or "", text) for title, text in passages if text.strip()),
    answers=answers,
    answerable=bool(answers),
  )

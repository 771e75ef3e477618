"""ELI5, in the two layouts in which it is published.

* ALCE's evaluation files: an array of `{question, question_ctx, answer, claims,
  docs: [{title, text}]}`, retrieved passages best first. Some copies have no docs.
* The original (facebookresearch/ELI5): an array of `{id, question, document,
  answer}`, tokenised. The question is "title --T-- body"; the document is web
  passages joined by `<P>`, some 10,000 words of them: `passage_words` cuts it.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator

from asc_jax.data import files
from asc_jax.types import Example, Passage


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads a file of either layout, or a folder of such files."""
  del dropped
  for file in files.find(path, "*.json", exclude="prompts"):
    for row in files.rows(file):
      yield _original(row) if "document" in row.value else _alce(row)


def _original(row: files.Row) -> Example:
  texts = [text.strip() for text in row.take("document", str).split("<P>")]
  question = " ".join(part.strip() for part in row.take("question", str).split("--T--"))
  return Example(
    id=row.take("id", str),  # the long and the short file share theirs: the first one read wins
    corpus="eli5",
    question=question.strip(),
    passages=tuple(Passage("", text) for text in texts if text),
    answers=_answers(row),
  )


def _alce(row: files.Row) -> Example:
  question = row.take("question", str).strip()
  docs = row.objects("docs") if "docs" in row.value else []
  passages = [(d.take("title", str, type(None)) or "", d.take("text", str)) for d in docs]
  return Example(
    id=files.stable_id(question),
    corpus="eli5",
    question=question,
    passages=tuple(Passage(title, text) for title, text in passages if text.strip()),
    answers=_answers(row),
  )


def _answers(row: files.Row) -> tuple[str, ...]:
  answer = row.take("answer", str, type(None)) or ""
  return (answer.strip(),) if answer.strip() else ()

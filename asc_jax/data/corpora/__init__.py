"""Readers of public corpora: one file a corpus, each from its release format.

A reader turns a file or folder into examples. A row that is malformed is a
`UserError`; one that is well-formed but useless here (no passages, an empty
question) is dropped and counted by its reason.
"""

from __future__ import annotations

import importlib
import pathlib
from collections import Counter

from asc_jax.config import nearest
from asc_jax.data import lexical
from asc_jax.types import Example, UserError

# Name in a config -> the module of this package that reads it, and its function.
READERS = {
  "asqa": ("asqa", "read"),
  "built": ("built", "read"),
  "clapnq": ("clapnq", "read"),
  "eli5": ("eli5", "read"),
  "expertqa": ("expertqa", "read"),
  "quickstart": ("quickstart", "read"),
  "quotesum": ("quotesum", "read"),
  "ragtruth": ("ragtruth", "read"),
  "ragtruth_data2txt": ("ragtruth", "read_data2txt"),
  "ragtruth_summary": ("ragtruth", "read_summary"),
}


def read(
  name: str, path: str | pathlib.Path | None = None, *, passage_words: int | None = None
) -> tuple[list[Example], dict[str, int]]:
  """Reads a corpus.

  Args:
    name: a key of `READERS`.
    path: its file or folder, in the format in which the corpus is published; None
      for packaged corpora.
    passage_words: keep a question's lexically best passages up to so many words
      (`lexical.cut`); None keeps all.

  Returns:
    The usable examples in the corpus's order, and how many rows were dropped for
    which reason.

  Raises:
    UserError: for an unknown corpus, a missing file, a malformed row, or a corpus
      without any usable question.
  """
  if name not in READERS:
    raise UserError(
      f"config.data.corpus={name!r} is unknown{nearest(name, READERS)}; there are {', '.join(sorted(READERS))}"
    )
  module, function = READERS[name]
  reader = getattr(importlib.import_module(f"{__name__}.{module}"), function)
  dropped: Counter[str] = Counter()
  examples = []
  seen: set[str] = set()
  for example in reader(path, dropped):
    if not example.question.strip():
      dropped["empty question"] += 1
    elif example.id in seen:
      dropped["repeats an earlier id"] += 1
    elif not example.passages:
      dropped["no passages"] += 1
    else:
      seen.add(example.id)
      examples.append(lexical.cut(example, passage_words) if passage_words else example)
  if not examples:
    reasons = ", ".join(f"{reason}: {n}" for reason, n in sorted(dropped.items())) or "no rows"
    raise UserError(f"{name} at {path} holds no usable question ({reasons})")
  return examples, dict(dropped)

"""Readers of public corpora, each from the format in which it is published.

A reader turns a file or folder into examples. A row that is malformed is a
`UserError`; one that is well-formed but useless here (no passages, an empty
question) is dropped and counted by its reason. One file a corpus; those of short
answers share one.
"""

from __future__ import annotations

import importlib
import pathlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from asc_jax.config import nearest
from asc_jax.data import ranking, splits
from asc_jax.types import Example, UserError


class Reader(NamedTuple):
  """A module of this package and its function; what a usable example must have."""

  module: str
  function: str = "read"
  needs: str = "passages"
  evaluation_only: bool = False


READERS = {
  "asqa": Reader("asqa"),
  "built": Reader("built", needs=""),
  "clapnq": Reader("clapnq"),
  "eli5": Reader("eli5"),
  "expertqa": Reader("expertqa"),
  "nq_open": Reader("factoid", "read_nq_open", "aliases"),
  "popqa": Reader("factoid", "read_popqa", "aliases"),
  "quickstart": Reader("quickstart"),
  "quotesum": Reader("quotesum"),
  "ragtruth": Reader("ragtruth"),
  "ragtruth_data2txt": Reader("ragtruth", "read_data2txt"),
  "ragtruth_summary": Reader("ragtruth", "read_summary"),
  "simpleqa": Reader("factoid", "read_simpleqa", "aliases", evaluation_only=True),
  "triviaqa": Reader("factoid", "read_triviaqa", "aliases"),
  "truthfulqa": Reader("factoid", "read_truthfulqa", "aliases", evaluation_only=True),
  "webquestions": Reader("factoid", "read_webquestions", "aliases"),
}


def check_trainable(examples: Iterable[Example]) -> None:
  """Refuses questions of corpora whose authors ask that nothing is trained on them."""
  for corpus in {e.corpus for e in examples}:
    if corpus in READERS and READERS[corpus].evaluation_only:
      raise UserError(f"{corpus} is for evaluation only; train on another config.data.corpus")


def read(
  name: str, path: str | pathlib.Path | None = None, *, passage_words: int | None = None
) -> tuple[list[Example], dict[str, int]]:
  """Reads a corpus, or several as one.

  Args:
    name: a key of `READERS`, or several with commas between.
    path: its file or folder, in the format in which the corpus is published; None
      for packaged corpora. Of several, one each, with commas between.
    passage_words: keep a question's lexically best passages up to so many words
      (`ranking.cut`); None keeps all.

  Returns:
    The usable examples in the corpus's order, and how many rows were dropped for
    which reason.

  Raises:
    UserError: for an unknown corpus, a missing file, a malformed row, or a corpus
      without any usable question.
  """
  if "," in name:
    return _read_several(name.split(","), path, passage_words)
  if name not in READERS:
    raise UserError(
      f"corpus {name!r} is unknown{nearest(name, READERS)}; there are {', '.join(sorted(READERS))}"
    )
  reader = READERS[name]
  function = getattr(importlib.import_module(f"{__name__}.{reader.module}"), reader.function)
  dropped: Counter[str] = Counter()
  examples = []
  seen: set[str] = set()
  for example in function(path, dropped):
    if not example.question.strip():
      dropped["empty question"] += 1
    elif example.id in seen:
      dropped["repeats an earlier id"] += 1
    elif reader.needs and not getattr(example, reader.needs):
      dropped[f"no {reader.needs}"] += 1
    else:
      seen.add(example.id)
      examples.append(ranking.cut(example, passage_words) if passage_words else example)
  if not examples:
    reasons = ", ".join(f"{reason}: {n}" for reason, n in sorted(dropped.items())) or "no rows"
    raise UserError(f"{name} at {path} holds no usable question ({reasons})")
  return examples, dict(dropped)


def _read_several(
  names: list[str], path: str | pathlib.Path | None, passage_words: int | None
) -> tuple[list[Example], dict[str, int]]:
  """Corpora one after the other; a repeated question is dropped."""
  paths = [None] * len(names) if path is None else str(path).split(",")
  if len(paths) != len(names):
    raise UserError(
      f"config.data.corpus={','.join(names)} names {len(names)} corpora and its path {len(paths)}; "
      "give one path each, with commas between"
    )
  found: dict[str, Example] = {}
  dropped: Counter[str] = Counter()
  for name, one in zip(names, paths, strict=True):
    examples, reasons = read(name, one, passage_words=passage_words)
    for example in examples:
      if found.setdefault(splits.normalise(example.question), example) is not example:
        dropped["repeats an earlier question"] += 1
    dropped.update(reasons)
  return list(found.values()), dict(dropped)

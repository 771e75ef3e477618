"""What the trained checkers learn from: labelled sentences, and some made for their documents."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from asc_jax.config import Field
from asc_jax.data import corruptions, splits, support_pairs
from asc_jax.text import sentences
from asc_jax.types import UserError

FIELDS = {
  "data.path": Field("../shared/data", "folder of the labelled sets"),
  "data.split": Field("checker_a", "part that is trained on", choices=splits.SPLITS[1:3]),
  "data.left_out": Field(
    None, "sets that are not trained on, separated by commas", optional=True
  ),
  "data.words": Field(150, "words of a document; pairs with a longer one are left out", int, low=1),
  "data.documents": Field(
    None, "documents of each set, chosen by hash; None: all", int, low=1, optional=True
  ),
  "data.claims": Field(4, "sentences of a document are made up to a multiple of this", int, low=1),
  "data.batch_size": Field(8, "documents a step (a cross-encoder reads `claims` pairs for each)", int, low=1),
  "data.epochs": Field(1, "times that everything is read", int, low=1),
}  # fmt: skip


class Claim(NamedTuple):
  """A sentence about a document."""

  sentence: str
  supported: bool
  kind: str  # the set it is from, or "made"


def read(data: Any, rng: random.Random) -> dict[str, list[Claim]]:
  """{document: sentences}, those that were made to fill the last `data.claims` included.

  A document of two sets is the later one's.

  Args:
    data: a config's section with `FIELDS`.
    rng: chooses what is made.

  Raises:
    UserError: naming a set to leave out that is not there, or where nothing is left.
  """
  pairs = support_pairs.read(data.path)
  left_out = [name.strip() for name in data.left_out.split(",")] if data.left_out else []
  for name in left_out:
    if name not in pairs:
      raise UserError(f"config.data.left_out: {name!r} is none of {', '.join(pairs)}")
  if len(set(left_out)) == len(pairs):
    raise UserError("config.data.left_out names every set; leave one to train on")
  found = _chosen({name: rows for name, rows in pairs.items() if name not in left_out}, data)
  if not found:
    raise UserError(
      f"{data.path} has no pair in the split {data.split} with a document of at most "
      f"{data.words} words"
    )
  everything = list(found)
  for document, some in found.items():
    missing = -len(some) % data.claims
    some += made(document, some, rng.choice(everything), rng)[:missing]
  return found


def _chosen(
  pairs: Mapping[str, Sequence[support_pairs.SupportPair]], data
) -> dict[str, list[Claim]]:
  found: dict[str, list[Claim]] = {}
  for name, rows in pairs.items():
    own: dict[str, list[Claim]] = {}
    for pair in rows:
      if pair.split == data.split and len(pair.document.split()) <= data.words:
        own.setdefault(pair.document, []).append(Claim(pair.sentence, pair.supported, name))
    found |= {d: own[d] for d in sorted(own, key=splits.position)[: data.documents]}
  return found


def made(document: str, own: Sequence[Claim], other: str, rng: random.Random) -> list[Claim]:
  """A sentence that is false of the document, one of its own, and one of another document.

  Args:
    document: what they are about.
    own: its labelled sentences; a supported one is made false, or else one of the document.
    other: the other document; where it is the same, or nothing can be made false, fewer are made.
    rng: chooses.
  """
  spans = [document[start:end] for start, end in sentences.split(document)]
  stated = rng.choice([s for s in spans if len(s.split()) > 4] or spans)
  true = [claim.sentence for claim in own if claim.supported]
  false = corruptions.corrupt(rng.choice(true or [stated]), document, rng)
  start, end = rng.choice(sentences.split(other))
  return [
    *([] if false is None else [Claim(false, False, "made")]),
    Claim(stated, True, "made"),
    *([] if other == document else [Claim(other[start:end], False, "made")]),
  ]

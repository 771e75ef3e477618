"""One committed split of all questions, by a hash of the question.

The same question goes to the same part in every corpus, every reader and every
tool, so that no checker was fitted on a question that a policy learns from, and
nothing is evaluated on a question that anything learned from:

| part | share | what may read it |
|---|---|---|
| train | 50 % | policies, warm-up |
| checker_a | 15 % | the reward's embedded checker |
| checker_b | 15 % | its held-out twin |
| eval | 20 % | evaluation |

Pairs of a document and a claim that belong to no question (WiCE, SummEdits, ...)
can never be a policy's question, so their "train" half is shared out between the
two checkers (`checker_split_of`).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable

from asc_jax.types import Example, UserError

SPLITS = ("train", "checker_a", "checker_b", "eval")
_ENDS = (0.50, 0.65, 0.80, 1.0)


def normalise(question: str) -> str:
  """Letters and digits in lower case, so that spelling variants agree.

  >>> normalise("  Who’s “on” first ? ") == normalise("who's on first")
  True
  """
  folded = unicodedata.normalize("NFKC", question).casefold()
  return "".join(c for c in folded if c.isalnum())


def position(text: str) -> float:
  """A number in [0, 1) that only depends on the normalised text."""
  digest = hashlib.blake2b(normalise(text).encode(), digest_size=8).digest()
  return (int.from_bytes(digest, "big") >> 11) / 2**53


def split_of(question: str) -> str:
  """The part that owns `question`: one of `SPLITS`.

  >>> split_of("Who's on first?") == split_of("whos on FIRST")
  True
  """
  at = position(question)
  return next(name for name, end in zip(SPLITS, _ENDS, strict=True) if at < end)


def checker_split_of(group: str) -> str:
  """Like `split_of`, for what is no question: "train" goes to the two checkers."""
  split = split_of(group)
  if split == "train":
    return "checker_a" if position(group) < _ENDS[0] / 2 else "checker_b"
  return split


def of_example(example: Example) -> str:
  """The part that owns an example (by `split_key` where its question is shared)."""
  return split_of(example.split_key or example.question)


def select(examples: Iterable[Example], split: str) -> list[Example]:
  """The examples of one part, by rising hash; "all" takes every part.

  The order depends on the questions alone, not on the file: the first n of a part
  are the same questions wherever they stand in it.

  Raises:
    UserError: if the split is unknown or none of the examples is in it.
  """
  if split not in (*SPLITS, "all"):
    raise UserError(f"split {split!r} is not one of {', '.join(SPLITS)}, all")
  examples = list(examples)
  chosen = [e for e in examples if split in ("all", of_example(e))]
  if not chosen:
    raise UserError(
      f"none of the corpus's {len(examples)} questions is in the split {split!r}; give a larger file or another split"
    )
  return sorted(chosen, key=lambda e: (position(e.split_key or e.question), e.id))

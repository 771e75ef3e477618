"""Pairs of answers to one question, one preferred to the other: chosen, written, read.

Two kinds of JSONL, an object a line. A *sample* is a question with its scored answers,
a *pair* two of them; a file of samples begins with the fields that they follow from:

  {"config": {FIELD: value, ...}}
  {"corpus", "id", "question", "answers": [ANSWER, ...]}
  {"corpus", "id", "question", "chosen": ANSWER, "rejected": ANSWER}

where ANSWER is {"answer", "finished", "R", "copy", "words"}. Passages and prompt come
from the corpus, by `id`, so that a pair is trained on as its question is in any other
method, and only if its question is in the part of the split that is trained on.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from asc_jax.data import files
from asc_jax.types import UserError

_ROUNDING = 1e-9  # of a difference of two shares
_SIDES = ("chosen", "rejected")


class Scored(NamedTuple):
  """One answer as sampled, and what is known of it.

  Attributes:
    answer: its text.
    finished: False where the token limit cut it off: no end-of-answer token follows.
    R: share of its sentences that the passages support.
    copy: share of its words inside verbatim matches with the passages.
    words: its words.
  """

  answer: str
  finished: bool
  R: float
  copy: float
  words: int


class Sample(NamedTuple):
  """A question with those of its answers of which every sentence could be scored."""

  corpus: str
  id: str
  question: str
  answers: tuple[Scored, ...]


class Pair(NamedTuple):
  """Two answers to a question; R of `chosen` is the larger."""

  corpus: str
  id: str
  question: str
  chosen: Scored
  rejected: Scored


def choose(sample: Sample, copy_tolerance: float | None = None) -> Pair | None:
  """The pair of answers furthest apart in R: best against worst.

  Args:
    sample: a question's answers.
    copy_tolerance: largest difference in Copy within a pair, which leaves R as what tells
      the two apart (copy-matched); None: no limit. Of pairs equally far apart in R, that
      with the smaller difference wins then.

  Returns:
    The pair, ties to the earlier answers; None where no two answers qualify.

  Examples:
    >>> answers = [Scored("a", True, R, copy, 9) for R, copy in ((1.0, 0.9), (0.5, 0.2), (0, 0.3))]
    >>> pair = choose(Sample("quickstart", "q", "Why?", tuple(answers)))
    >>> pair.chosen.copy, pair.rejected.copy
    (0.9, 0.3)
    >>> pair = choose(Sample("quickstart", "q", "Why?", tuple(answers)), copy_tolerance=0.1)
    >>> pair.chosen.copy, pair.rejected.copy
    (0.2, 0.3)
  """
  found = []
  for chosen in sample.answers:
    for rejected in sample.answers:
      gap, copy_gap = chosen.R - rejected.R, abs(chosen.copy - rejected.copy)
      if gap > 0 and (copy_tolerance is None or copy_gap <= copy_tolerance + _ROUNDING):
        found.append((-gap, 0 if copy_tolerance is None else copy_gap, chosen, rejected))
  if not found:
    return None
  _, _, chosen, rejected = min(found, key=lambda row: row[:2])  # the first of equals
  return Pair(sample.corpus, sample.id, sample.question, chosen, rejected)


def encode(row: Sample | Pair) -> str:
  """The row's line."""
  value = row._asdict()
  if isinstance(row, Sample):
    value["answers"] = [a._asdict() for a in row.answers]
  else:
    value |= {side: getattr(row, side)._asdict() for side in _SIDES}
  return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: str | os.PathLike, rows: Iterable[Pair]) -> None:
  """Writes a file of pairs, whole or not at all."""
  partial = pathlib.Path(f"{path}.partial")
  partial.write_text("".join(map(encode, rows)), encoding="utf-8")
  os.replace(partial, path)


def read(path: str | os.PathLike, copy_tolerance: float | None = None) -> list[Pair]:
  """Reads a file of pairs.

  Args:
    path: JSONL.
    copy_tolerance: as for `choose`; a pair that is further apart is refused.

  Raises:
    UserError: no such file, no pair in it, or a malformed row: file, line, what was expected.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise UserError(
      f"{path} is no file; config.dpo.pairs takes the pairs that asc_jax.tools.make_pairs writes"
    )
  pairs: dict[tuple[str, str], Pair] = {}
  for row in files.rows(path):
    pair = Pair(
      row.take("corpus", str),
      row.take("id", str),
      row.take("question", str),
      *(_scored(files.Row(f"{row.where}, {x}", row.take(x, dict))) for x in _SIDES),
    )
    if not pair.chosen.R > pair.rejected.R:
      raise UserError(f"{row.where}: expected a larger R in 'chosen' than in 'rejected'")
    gap = abs(pair.chosen.copy - pair.rejected.copy)
    if copy_tolerance is not None and gap > copy_tolerance + _ROUNDING:
      raise UserError(
        f"{row.where}: expected copy of 'chosen' and 'rejected' within "
        f"config.dpo.copy_tolerance={copy_tolerance:g}, found {gap:.3g} between them"
      )
    if pairs.setdefault(pair[:2], pair) is not pair:
      raise UserError(f"{row.where}: expected one pair a question, found {pair.id!r} again")
  if not pairs:
    raise UserError(f"{path}: expected a pair a line, found none")
  return list(pairs.values())


def read_samples(path: str | os.PathLike) -> tuple[dict[str, Any], list[Sample]]:
  """Reads a file of samples: what its first line says they follow from, and they.

  Raises:
    UserError: a malformed row: file, line, what was expected.
  """
  head, *rows = files.rows(pathlib.Path(path))
  samples = [
    Sample(
      row.take("corpus", str),
      row.take("id", str),
      row.take("question", str),
      tuple(map(_scored, row.objects("answers"))),
    )
    for row in rows
  ]
  return head.take("config", dict), samples


def _scored(row: files.Row) -> Scored:
  answer = Scored(
    row.take("answer", str),
    row.take("finished", bool),
    row.take("R", float, int),
    row.take("copy", float, int),
    row.take("words", int),
  )
  for name, share in (("R", answer.R), ("copy", answer.copy)):
    if not 0 <= share <= 1:
      raise UserError(f"{row.where}: expected a share between 0 and 1 as {name!r}, found {share}")
  return answer


def statistics(samples: Sequence[Sample], pairs: Sequence[Pair]) -> str:
  """A table of what was sampled and what the pairs differ in."""
  answers = [a for s in samples for a in s.answers]
  lines = [
    f"questions {len(samples)}, scored answers {len(answers)}, pairs {len(pairs)}",
    "",
    f"{'mean over pairs':16}{'chosen':>10}{'rejected':>10}{'difference':>12}",
  ]
  for name, scale in (("R", 100), ("copy", 100), ("words", 1)):
    sides = [[scale * getattr(getattr(p, side), name) for p in pairs] for side in _SIDES]
    means = [sum(side) / len(side) if side else float("nan") for side in sides]
    label = f"{name.capitalize()} %" if scale > 1 else name.capitalize()
    lines.append(f"{label:16}{means[0]:10.1f}{means[1]:10.1f}{means[0] - means[1]:+12.1f}")
  gaps = [abs(p.chosen.copy - p.rejected.copy) for p in pairs]
  lines.append(f"largest difference in Copy within a pair: {100 * max(gaps, default=0):.1f} points")
  return "\n".join(lines)

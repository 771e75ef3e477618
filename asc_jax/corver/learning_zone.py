"""Which questions teach: those that the untrained policy sometimes gets right.

A pass-rate file holds how many of a question's samples were correct, a line a
question, after a first line that says how they were drawn. Sampling is the slow
part, so the file is written as it goes and a run continues where the last ended.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from asc_jax.data import files
from asc_jax.types import Example, UserError

# Questions to their sampled answers' correctness, one list of `samples` a question.
Judge = Callable[[Sequence[Example]], list[list[bool]]]


def measure(
  examples: Sequence[Example],
  judge: Judge,
  path: str | os.PathLike,
  *,
  settings: Mapping[str, Any],
  batch_size: int,
) -> dict[str, int]:
  """Pass counts of all questions, sampling only those that the file lacks.

  Args:
    examples: questions with unique ids.
    judge: samples and judges a batch of them.
    path: the pass-rate file.
    settings: how answers are drawn (model, samples, temperature, ...); a file made
      with others is refused.
    batch_size: questions sampled between two writes.

  Returns:
    Question id to the number of correct samples.

  Raises:
    UserError: the file was made with other settings.
  """
  path = pathlib.Path(path)
  passed = check(path, settings)
  if not path.exists() or not path.read_bytes():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(settings)) + "\n", encoding="utf-8")
  files.cut_tail(path)
  missing = [example for example in examples if example.id not in passed]
  for start in range(0, len(missing), batch_size):
    batch = missing[start : start + batch_size]
    rows = {e.id: sum(verdicts) for e, verdicts in zip(batch, judge(batch), strict=True)}
    with open(path, "a", encoding="utf-8") as file:
      file.writelines(json.dumps({"id": k, "correct": v}) + "\n" for k, v in rows.items())
    passed.update(rows)
  return {example.id: passed[example.id] for example in examples}


def check(path: str | os.PathLike, settings: Mapping[str, Any]) -> dict[str, int]:
  """Correct samples by question id of a file that may go on with these settings.

  An absent or empty file holds none.

  Raises:
    UserError: the file was made with other settings, or is none.
  """
  path = pathlib.Path(path)
  if path.is_dir():
    raise UserError(f"config.corver.pass_rates={path} is a folder; name a file")
  files.check_folder(path.parent, "config.corver.pass_rates")
  if not path.exists() or not path.read_bytes():
    return {}
  made_with, passed = read(path)
  if made_with != json.loads(json.dumps(dict(settings))):
    differing = [k for k in {**made_with, **settings} if made_with.get(k) != settings.get(k)]
    raise UserError(
      f"{path} was made with another {' and '.join(differing)}; "
      "give the settings it was made with, or name another file"
    )
  return passed


def read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, int]]:
  """A pass-rate file's settings, and correct samples by question id.

  Raises:
    UserError: naming the line that is no such row.
  """
  passed: dict[str, int] = {}
  settings: dict[str, Any] | None = None
  for number, line in _whole_lines(path):
    try:
      row = json.loads(line)
      if settings is None:
        settings = dict(row)
      else:
        passed[row["id"]] = int(row["correct"])
    except (ValueError, TypeError, KeyError):
      raise UserError(f"{path}:{number} is no row of a pass-rate file; make it again") from None
  if settings is None:
    raise UserError(f"{path} holds no pass rates; make it again")
  return settings, passed


def _whole_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
  try:
    content = pathlib.Path(path).read_text(encoding="utf-8")
  except OSError as error:
    raise UserError(f"{path}: cannot be read ({error.strerror}); name a pass-rate file") from None
  return enumerate(content.split("\n")[:-1], 1)


def select(
  examples: Sequence[Example],
  passed: Mapping[str, int],
  *,
  samples: int = 16,
  low: int = 1,
  high: int = 15,
  anchors: int = 0,
  seed: int = 0,
) -> list[Example]:
  """The questions of the learning zone, with some that are mastered, in corpus order.

  Args:
    examples: questions; one without a pass count is left out.
    passed: correct samples by question id.
    samples: drawn a question.
    low: fewest correct samples of the zone.
    high: most of them.
    anchors: questions with all samples correct to add, drawn at random; the paper
      gives small models 1,000 so that they do not forget what they know.
    seed: of that draw.

  Raises:
    UserError: no question is left.
  """
  zone = [e for e in examples if low <= passed.get(e.id, -1) <= high]
  mastered = [e for e in examples if passed.get(e.id) == samples > high]
  mastered = random.Random(seed).sample(mastered, min(anchors, len(mastered)))
  kept = {e.id for e in zone + mastered}
  if not kept:
    raise UserError(
      f"no question has {low} to {high} correct of {samples}; "
      "widen config.corver.zone_low and zone_high or sample other questions"
    )
  return [e for e in examples if e.id in kept]

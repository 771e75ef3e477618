"""What runs left behind, read back and set against each other: base model and methods.

A workdir holds records/**/*.jsonl and perhaps metrics.jsonl. `asc_jax.main` writes the
answers of one run; `asc_jax.evaluate` those of several models, told apart by their `run`.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from asc_jax.evaluation import records as records_lib
from asc_jax.evaluation.records import Record
from asc_jax.types import UserError

CORPORA = ("asqa", "ragtruth", "clapnq", "eli5", "expertqa")  # the paper's, in its order
BASE = "base"  # the label of the model that nothing was trained on

Row = TypeVar("Row", bound=Mapping)  # a Record, or another kind with run, step, corpus and id


@dataclasses.dataclass(frozen=True)
class Run:
  """The answers of one model at any number of steps, and the metrics of its training."""

  name: str
  records: list[Record]
  curves: list[dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Setting:
  """The answers of one method, by corpus."""

  label: str
  records: Mapping[str, Sequence[Record]]

  def all(self) -> list[Record]:
    return [record for rows in self.records.values() for record in rows]


def names(paths: Sequence[str | pathlib.Path]) -> list[str]:
  """A short name for each path: its last part, or more of it where two are alike.

  >>> names(["runs/a/", "runs/b"]), names(["x/run", "y/run"])
  (['a', 'b'], ['x/run', 'y/run'])
  """
  parts = [pathlib.Path(path).resolve().with_suffix("").parts for path in paths]
  for length in range(1, max(map(len, parts), default=1) + 1):
    short = ["/".join(p[-length:]) for p in parts]
    if len(set(short)) == len(short):
      return short
  raise UserError(f"{paths[0]} is given twice; name each run once")


def load_all(paths: Sequence[str]) -> list[Run]:
  """All runs in workdirs and records files.

  A folder with one run's answers takes the folder's name, whatever its records say; of
  several, each keeps its own.
  """
  found = []
  for path, name in zip(paths, names(paths), strict=True):
    found += load(pathlib.Path(path), name)
  return found if len(paths) == 1 else _told_apart(found)


def _told_apart(found: list[Run]) -> list[Run]:
  """Two models of one name in different workdirs are numbered."""
  seen: dict[str, int] = {}
  result = []
  for run in found:
    seen[run.name] = seen.get(run.name, 0) + 1
    name = run.name if seen[run.name] == 1 else f"{run.name} ({seen[run.name]})"
    result.append(Run(name, _renamed(run.records, name), run.curves))
  return result


def _renamed(rows: Sequence[Record], run: str) -> list[Record]:
  return [{**row, "run": run} for row in rows]


def load(path: pathlib.Path, name: str) -> list[Run]:
  """Reads a workdir or a records file.

  Raises:
    UserError: nothing to read, a malformed line, or an answer that is there twice.
  """
  curves: list[dict[str, float]] = []
  if path.is_dir():
    files = sorted((path / "records").rglob("*.jsonl"))
    if (path / "metrics.jsonl").exists():
      curves = read_lines(path / "metrics.jsonl", _metrics_problem)
    if not files and not curves:
      raise UserError(
        f"{path}: neither records/**/*.jsonl nor metrics.jsonl; give a workdir of asc_jax.main or "
        "asc_jax.evaluate"
      )
  else:
    files = [path]
  rows = [row for file in files for row in records_lib.read(file)]
  if not rows and not curves:
    raise UserError(f"{path} holds no answer and no metrics; let the run answer first")
  by_run: dict[str, list[Record]] = {}
  for row in rows:
    by_run.setdefault(row["run"], []).append(row)
  for run_rows in by_run.values():
    refuse_repeats(path, run_rows)
  if len(by_run) < 2:
    return [Run(name, _renamed(rows, name), curves)]
  runs = [Run(run, run_rows, []) for run, run_rows in by_run.items()]
  return [*runs, Run(name, [], curves)] if curves else runs


def refuse_repeats(path: pathlib.Path, rows: Sequence[Row]) -> None:
  """Raises UserError where one run's rows hold an answer twice."""
  if len({(r["step"], r["corpus"], r["id"], r["answer_index"]) for r in rows}) < len(rows):
    raise UserError(f"{path}: the same answer is recorded twice; keep one file a step and corpus")


def _metrics_problem(row: Any) -> str | None:
  if (
    not isinstance(row, dict)
    or not isinstance(row.get("step"), int)
    or {type(value) for value in row.values()} - {int, float}
  ):
    return 'a line is {"step": number, "name": number, ...}'
  return None


def read_lines(path: pathlib.Path, problem) -> list:
  """JSON lines; a last one that a crash cut off is left out.

  Raises:
    UserError: naming file and line where one is no JSON or `problem(row)` says why.
  """
  try:
    lines = path.read_text(encoding="utf-8").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"{path}: cannot be read ({error})") from None
  rows = []
  for number, line in enumerate(lines[:-1], 1):
    try:
      row = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise UserError(f"{path}:{number}: not a JSON object ({error})") from None
    if text := problem(row):
      raise UserError(f"{path}:{number}: {text}")
    rows.append(row)
  return rows


def split(found: Sequence[Run]) -> tuple[Setting | None, list[Setting]]:
  """The base model's answers, the paper's corpora first, and each method's last ones.

  The base model's are those at step 0 of the run called base, else the first at step 0.
  A model that was evaluated as it came (step 0 too) is a method where it is not that one.
  """
  base: dict[str, Sequence[Record]] = {}
  settings = []
  methods = [{r["method"] for r in run.records if r["step"]} for run in found]
  owners = set()
  for run in sorted(found, key=lambda run: run.name != BASE):
    for corpus, rows in by_corpus(run.records, 0).items():
      if base.setdefault(corpus, rows) is rows:
        owners.add(run.name)
  for run, method in zip(found, methods, strict=True):
    last = max((r["step"] for r in run.records), default=0)
    if last > 0 or (run.records and run.name not in owners):
      unique = len(method) == 1 and methods.count(method) == 1
      label = next(iter(method)) if unique else run.name
      settings.append(Setting(label, by_corpus(run.records, last)))
  if not base and settings:  # nothing to compare with: the first method is the reference
    base, settings = dict(settings[0].records), settings[1:]
  for setting in settings:
    if lost := set(base) ^ set(setting.records):
      raise UserError(
        f"{setting.label}: corpus {min(lost)} was not answered both by it and by the base model"
        " (step 0); evaluate both on it"
      )
  order = [c for c in CORPORA if c in base] + [c for c in base if c not in CORPORA]
  return (Setting(BASE, {c: base[c] for c in order}) if base else None), settings


def by_corpus(rows: Sequence[Row], step: int) -> dict[str, list[Row]]:
  """The rows of one step, of any kind of record, by corpus in order of appearance."""
  found: dict[str, list[Row]] = {}
  for row in rows:
    if row["step"] == step:
      found.setdefault(row["corpus"], []).append(row)
  return found

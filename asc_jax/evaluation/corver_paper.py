"""CorVer's tables from what runs left behind: records, metrics and configs.

Table 1 is the paper's first; the order of the others is this project's, after what the
paper reports. A run's place in them follows from its config.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from asc_jax.corver import analyses, verify
from asc_jax.evaluation import records, runs
from asc_jax.evaluation.completions import Completion, Summary, summarise
from asc_jax.evaluation.tables import Cell, Table, number
from asc_jax.rl import logs
from asc_jax.types import UserError

ABLATIONS = {  # label: field, its value
  "A1, no corpus": ("corver.local_weight", 0.0),
  "A2, no answer score": ("corver.judge_weight", 0.0),
  "A3, one corpus scalar a completion": ("corver.unit", "answer"),
  "A4, no learning-zone filter": ("corver.pass_rates", None),
}
OUTCOMES = ("correct", "wrong", "refused")
_SUMMARY = ("correct %", "not attempted %", "format %", "tokens")
# What two runs may differ in and still be the same experiment.
_BOOKKEEPING = ("train.allow_config_change", "train.checkpoint_every", "train.keep", "train.wandb")


@dataclasses.dataclass(frozen=True)
class Run:
  """One workdir.

  Attributes:
    name: of the folder.
    config: flat; of an evaluation, the fields `model.path` and `method`; else empty.
    before: the base model's completions, by corpus; may be empty.
    after: those of the last step, by corpus; empty where nothing was trained.
    curves: the metrics of each step.
  """

  name: str
  config: Mapping[str, Any]
  before: Mapping[str, list[Completion]]
  after: Mapping[str, list[Completion]]
  curves: Sequence[Mapping[str, float]]

  @property
  def model(self) -> str:
    return pathlib.Path(str(self.config.get("model.path", "model"))).name

  def mean(self, metric: str) -> float | None:
    """Of a metric over the steps; the first, which compiles, is left out where it can be."""
    values = [row[metric] for row in self.curves if metric in row]
    return float(np.mean(values[1:] or values)) if values else None


def load_all(paths: Sequence[str]) -> list[Run]:
  """Reads workdirs of asc_jax.main and asc_jax.evaluate.

  Raises:
    UserError: a path is no such workdir, or a line is malformed.
  """
  named = zip(paths, runs.names(paths), strict=True)
  return [run for path, name in named for run in load(pathlib.Path(path), name)]


def load(path: pathlib.Path, name: str) -> list[Run]:
  """The run of one workdir, or those that an evaluation compared with the base model."""
  files = sorted((path / "records").rglob("*.jsonl"))
  if not files:
    raise UserError(
      f"{path}: no records/*.jsonl; give a workdir in which asc_jax.main or asc_jax.evaluate ran "
      "with config.corver.on"
    )
  by_run: dict[str, list[Completion]] = {}
  for row in (row for file in files for row in records.read(file, Completion)):
    by_run.setdefault(row["run"], []).append(row)
  for rows in by_run.values():
    runs.refuse_repeats(path, rows)
  if (path / "evaluation.json").exists():
    return _compared(path, name, by_run)
  rows = [row for own in by_run.values() for row in own]
  config, curves = path / "config.json", path / "metrics.jsonl"
  last = max(row["step"] for row in rows)
  return [
    Run(
      name,
      _read_json(config) if config.exists() else {},
      runs.by_corpus(rows, 0),
      runs.by_corpus(rows, last) if last else {},
      logs.read_metrics(curves) if curves.exists() else [],
    )
  ]


def _compared(path: pathlib.Path, name: str, by_run: Mapping[str, list[Completion]]) -> list[Run]:
  """An evaluation's runs; how they were trained is in their own workdirs, not here."""
  settings = _read_json(path / "evaluation.json").get("config")
  if not isinstance(settings, dict):
    raise UserError(f"{path}/evaluation.json has no config; restore the run's own")
  config = {"model.path": settings.get("model.path")}
  before = runs.by_corpus(by_run.get(runs.BASE, []), 0)
  found = []
  for label, rows in by_run.items():
    if label != runs.BASE:
      after = runs.by_corpus(rows, max(row["step"] for row in rows))
      found.append(Run(label, {**config, "method": rows[0]["method"]}, before, after, []))
  return found or [Run(name, config, before, {}, [])]


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    found = json.loads(path.read_text(encoding="utf-8"))
  except ValueError as error:
    raise UserError(f"{path}: not JSON ({error}); restore the run's own") from None
  if not isinstance(found, dict):
    raise UserError(f"{path}: no JSON object; restore the run's own")
  return found


def bases(found: Sequence[Run]) -> dict[str, Mapping[str, list[Completion]]]:
  """Each model's own completions: those of the first run that has some."""
  known: dict[str, Mapping[str, list[Completion]]] = {}
  for run in found:
    if run.before:
      known.setdefault(run.model, run.before)
  return known


def labels(found: Sequence[Run]) -> dict[str, str]:
  """Run name to the label of its row: the method where that tells it from the others."""
  methods = [run.config.get("method") for run in found]
  return {
    run.name: str(method) if method and methods.count(method) == 1 else run.name
    for run, method in zip(found, methods, strict=True)
  }


def _means(rows: Mapping[str, Sequence[Completion]]) -> Summary:
  """Means over corpora of their means."""
  found = [summarise(own) for own in rows.values()]
  values = np.mean([summary[1:] for summary in found], axis=0)
  return Summary(sum(summary.questions for summary in found), *map(float, values))


def _cells(summary: Summary) -> list[Cell]:
  return [Cell(number(value)) for value in summary[1:]]


def table_1(found: Sequence[Run]) -> Table:
  """Accuracy on every benchmark, of each model before and after each run."""
  names, known = labels(found), bases(found)
  corpora = list(dict.fromkeys(c for run in found for c in (*run.before, *run.after)))
  rows = []
  for model in dict.fromkeys(run.model for run in found):
    entries = [("base", known[model])] if model in known else []
    entries += [(names[run.name], run.after) for run in found if run.model == model and run.after]
    for label, answers in entries:
      accuracies = [summarise(answers[c]).correct if c in answers else None for c in corpora]
      mean = _means(answers)
      rows.append(
        [Cell(f"{model}, {label}"), *(Cell(number(v)) for v in accuracies), *_cells(mean)]
      )
  questions = {c: len({r["id"] for run in found for r in run.before.get(c, ())}) for c in corpora}
  return Table(
    "table_1",
    "Table 1. Accuracy by alias match, %",
    ["model, method", *corpora, *(f"mean {name}" for name in _SUMMARY)],
    rows,
    [
      "Questions: " + ", ".join(f"{c} {n}" for c, n in questions.items()) + ".",
      "Paper: TriviaQA rises by 4.1 points, a mean over six models of 3 to 14 billion parameters.",
    ],
  )


def ablation(run: Run) -> set[str]:
  """The labels of `ABLATIONS` that hold for a run."""
  return {
    label
    for label, (field, value) in ABLATIONS.items()
    if field in run.config and run.config[field] == value
  }


def _alike(a: Run, b: Run, but: Iterable[str]) -> bool:
  """Whether two runs are one experiment, save for some fields."""
  fields = (a.config.keys() | b.config.keys()) - {*but, *_BOOKKEEPING}
  return all(a.config.get(name) == b.config.get(name) for name in fields)


def table_2(found: Sequence[Run]) -> Table | None:
  """What each part of the reward is worth, against the fullest run of the same model."""
  rows = []
  for model in dict.fromkeys(run.model for run in found):
    own = [r for r in found if r.model == model and r.after and r.config.get("method") == "corver"]
    own.sort(key=lambda run: len(ablation(run)))
    for full in own:
      lacking = {run.name: ablation(run) - ablation(full) for run in own}
      ablated = [
        run
        for run in own
        if lacking[run.name] and _alike(run, full, (ABLATIONS[a][0] for a in lacking[run.name]))
      ]
      if ablated:
        break
    else:
      continue
    whole = _means(full.after)
    rows.append([Cell(f"{model}, CorVer"), *_cells(whole), Cell("")])
    for run in ablated:
      mean, label = _means(run.after), "; ".join(sorted(lacking[run.name]))
      change = f"{mean.correct - whole.correct:+.1f}"
      rows.append([Cell(f"{model}, {label}"), *_cells(mean), Cell(change)])
  if not rows:
    return None
  return Table(
    "table_2",
    "Table 2. Ablations, means over benchmarks",
    ["model, reward", *_SUMMARY, "change, points"],
    rows,
  )


def table_3(found: Sequence[Run]) -> Table | None:
  """What a step costs, and the sentences' rewards in it."""
  names, rows = labels(found), []
  times = {run.name: (run.mean("time/step"), run.mean("time/sentence_rewards")) for run in found}
  slowest = max((step for step, _ in times.values() if step), default=0.0)
  for run in found:
    step, reward = times[run.name]
    if not step or not reward:
      continue
    completions = run.config.get("data.batch_size", 1) * run.config.get("rollout.group_size", 1)
    sentences = completions * (run.mean("corver/sentences") or 0.0)
    by_checker = run.config.get("corver.verifier") == "checker"
    rows.append(
      [
        Cell(f"{run.model}, {names[run.name]}"),
        Cell(str(run.config["checker.name"]) if by_checker else "corpus"),
        Cell(number(step, 2)),
        Cell(number(reward, 3)),
        Cell(number(100 * reward / step)),
        Cell(number(1000 * reward / sentences if sentences else None, 2)),
        Cell(number(slowest / step, 2)),
      ]
    )
  if not rows:
    return None
  return Table(
    "table_3",
    "Table 3. Cost of training",
    [
      "model, method",
      "verifier",
      "s a step",
      "s of rewards",
      "rewards, % of a step",
      "ms a sentence",
      "times faster than the slowest",
    ],
    rows,
    ["The first step, which compiles, is left out where there are more."],
  )


def counted(rows: Sequence[Completion]) -> tuple[list[int | None], list[bool]]:
  """Each sentence's count, and whether its completion is correct; refusals are left out."""
  counts: list[int | None] = []
  correct: list[bool] = []
  for row in rows:
    if row["outcome"] != "refused":
      counts += [s["occurrences"] for s in row["sentences"]]
      correct += [row["outcome"] == "correct"] * len(row["sentences"])
  return counts, correct


def buckets(found: Sequence[Run]) -> list[analyses.Bucket]:
  """The calibration of counts on the base models' completions, else on all there are."""
  answers = [*bases(found).values()] or [run.after for run in found]
  rows = [row for corpora in answers for own in corpora.values() for row in own]
  levels = next((r.config["corver.levels"] for r in found if "corver.levels" in r.config), None)
  starts = verify.parse_levels(levels or "four_level").starts
  return analyses.calibration(*counted(rows), starts)


def table_4(found: Sequence[Run]) -> Table:
  """P(correct | count bucket), and where it jumps."""
  rows = [
    [
      Cell(bucket.label),
      Cell(f"{bucket.total:,}"),
      Cell(number(None if bucket.precision is None else 100 * bucket.precision)),
      Cell("" if bucket.jump is None else f"{100 * bucket.jump:+.1f}"),
    ]
    for bucket in buckets(found)
  ]
  return Table(
    "table_4",
    "Table 4. Calibration: how often an answer is correct, by the count of its sentences",
    ["count", "sentences", "correct %", "jump, points"],
    rows,
    ["Sentences of the base models' answers, thinking included, refusals left out."],
  )


def varying(found: Sequence[Run], field: str) -> list[Run]:
  """Trained runs that differ in this field alone, by its value; the largest such group."""
  trained = [run for run in found if run.after and field in run.config]
  groups = [[run for run in trained if _alike(run, one, (field,))] for one in trained]
  values = {run.config[field]: run for run in max(groups, key=len, default=[])}
  return [values[value] for value in sorted(values)] if len(values) > 1 else []


def sweep(found: Sequence[Run], field: str, name: str, title: str) -> Table | None:
  """Correctness, refusal, format, length and wall clock by the value of one field."""
  chosen = varying(found, field)
  rows = []
  for run in chosen:
    seconds = [row["time/step"] for row in run.curves if "time/step" in row]
    minutes = sum(seconds) / 60 if seconds else None
    cells = [Cell(f"{run.config[field]}"), *_cells(_means(run.after)), Cell(number(minutes))]
    rows.append(cells)
  if not rows:
    return None
  return Table(name, title, [field, *_SUMMARY, "minutes of training"], rows)


SWEEPS = (
  ("corver.rule", "rules", "Rules of what is looked up"),
  ("corver.local_weight", "sweep_weight", "Sensitivity to the weight of the corpus"),
  ("corver.window", "sweep_window", "Sensitivity to the window, in tokens"),
)


def moves(found: Sequence[Run]) -> dict[str, dict[tuple[str, str], float]]:
  """By run label: from which outcome to which, in % of the questions that both answered."""
  names, known = labels(found), bases(found)
  shares = {}
  for run in found:
    if run.after and run.model in known:
      before, after = _outcomes(known[run.model]), _outcomes(run.after)
      counts = analyses.transitions(before, after)
      total = max(sum(counts.values()), 1)
      shares[names[run.name]] = {pair: 100 * n / total for pair, n in counts.items()}
  return shares


def _outcomes(answers: Mapping[str, Sequence[Completion]]) -> dict[str, str]:
  """Of each question's first answer."""
  return {
    f"{corpus} {row['id']}": row["outcome"]
    for corpus, rows in answers.items()
    for row in rows
    if row["answer_index"] == 0
  }


def transitions(found: Sequence[Run]) -> Table | None:
  """What became of the refused, the wrong and the correct."""
  pairs = [(a, b) for a in OUTCOMES[::-1] for b in OUTCOMES]
  rows = [
    [Cell(label), *(Cell(number(shares.get(pair, 0.0))) for pair in pairs)]
    for label, shares in moves(found).items()
  ]
  if not rows:
    return None
  return Table(
    "transitions",
    "From the base model's outcome to the trained one's, % of questions",
    ["method", *(f"{a} to {b}" for a, b in pairs)],
    rows,
  )


def make(found: Sequence[Run]) -> tuple[list[Table], list[str]]:
  """All tables that these runs can fill, and why others are missing."""
  made: list[tuple[Table | None, str]] = [
    (table_1(found), ""),
    (table_2(found), "table_2: no two runs are ablations of each other"),
    (table_3(found), "table_3: no run has times in its metrics.jsonl"),
    (table_4(found), ""),
  ]
  for field, name, title in SWEEPS:
    missing = f"{name}: no two trained runs differ in config.{field} alone"
    made.append((sweep(found, field, name, title), missing))
  made.append((transitions(found), "transitions: no run has answers of before and after"))
  tables = [table for table, _ in made if table is not None]
  return tables, [missing for table, missing in made if table is None]

"""Evaluates models: records of every answer, from which all tables are made.

  python -m asc_jax.evaluate --config=FILE.py --workdir=DIR [--models=...] [--instruments=...]

--models names who answers, with commas between: `base` (config.model.path as it comes),
RUN or RUN@STEP (a workdir of asc_jax.main: its newest complete checkpoint, or another),
and FOLDER (an exported model, or what else config.model.path could name). Left out, it is
base and, where DIR is a run itself, its newest checkpoint.

--instruments names who scores the sentences besides config.checker, with commas between:
minicheck_t5:FOLDER,lexical. With config.corver.on the answers are judged by their aliases and
the sentences by config.corver's verifier instead.

config.eval says on what (corpus and path, several with commas between; split; questions)
and how (answers, temperature, max_tokens). DIR/records/CORPUS/MODEL_STEP.jsonl is written
for each, and the same command goes on where a killed one stopped. Tables and figures are
then made by `python -m asc_jax.report DIR`.
"""

from __future__ import annotations

import copy
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging
from ml_collections import config_dict

from asc_jax import cli
from asc_jax import config as config_lib
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.types import UserError

BASE = "base"
# To what is answered and scored; so is `corver.` where it is off.
IRRELEVANT = ("checker.devices", "dpo.", "loss.", "mesh.", "optimizer.", "sft.", "train.")


class Model(NamedTuple):
  """One model to evaluate.

  Attributes:
    label: stored in its records, and the stem of their file.
    step: updates before its answers; 0 for weights as they come.
    method: how it was trained; its label where that is not known.
    config: the command's, with the model section of the run it comes from.
    run: that run's workdir, or None.
  """

  label: str
  step: int
  method: str
  config: config_dict.ConfigDict
  run: pathlib.Path | None


class Job(NamedTuple):
  """One model's answers to one corpus."""

  model: Model
  corpus: str
  questions: list
  path: pathlib.Path


def main(config, workdir: str, models: str | None, instruments: str | None) -> None:
  """Answers, scores and writes what is not there yet, and prints a table a corpus."""
  # jax and the model code load after the flags are known to be right.
  from asc_jax.evaluation import completions
  from asc_jax.rl import loop

  folder = pathlib.Path(workdir)
  kind = completions.evaluator_of(config)
  if not config.eval.questions:
    raise UserError("config.eval.questions=0 leaves nothing to evaluate; give at least 1")
  found = find_models(config, folder, models)
  jobs = find_jobs(found, folder)
  settings = {"config": relevant(config), "instruments": instruments}
  check_folder(folder, settings, jobs, kind.schema)
  loop.set_compilation_cache(config.train.compilation_cache)
  mesh = loop.make_mesh(config)
  missing = not all(job.path.exists() for job in jobs)
  scorers = load_scorers(config, split_names(instruments), mesh) if missing else {}
  files.make_folder(folder, "--workdir")  # nothing is written before all else is right
  write_settings(folder, settings)
  for corpus, answers in run(jobs, mesh, kind, scorers).items():
    print(f"\n{corpus}\n{kind.terminal(answers)}")


def split_names(text: str | None) -> list[str]:
  return [name.strip() for name in (text or "").split(",") if name.strip()]


def find_models(config, folder: pathlib.Path, text: str | None) -> list[Model]:
  """The models that --models names, each known to be there.

  Raises:
    UserError: naming the model that is not.
  """
  from asc_jax.evaluation import runs
  from asc_jax.rl import checkpointing, loop

  names = split_names(text)
  if not names:
    names = [BASE] if checkpointing.latest_step(folder) is None else [BASE, str(folder)]
  parts = [re.fullmatch(r"(.+?)(?:@(\d+))?", name) for name in names]
  paths = [match[1] for match in parts if match and match[0] != BASE]
  labels = dict(zip(dict.fromkeys(paths), runs.names(list(dict.fromkeys(paths))), strict=True))
  found = []
  for match in parts:
    assert match is not None  # a name is not empty
    path, step = pathlib.Path(match[1]), int(match[2]) if match[2] else None
    if match[0] == BASE:
      model = Model(BASE, 0, BASE, config, None)
    elif (path / "checkpoints").is_dir():
      model = _of_run(config, path, labels[match[1]], step)
    else:
      of = copy.deepcopy(config)
      of.model.path = match[0]
      model = Model(labels[match[1]], 0, labels[match[1]], of, None)
    loop.check_model(model.config)
    found.append(model)
  twice = [
    m.label for m in found if [(n.label, n.step) for n in found].count((m.label, m.step)) > 1
  ]
  if twice:
    raise UserError(f"--models names {twice[0]} twice; name each model once")
  return found


def _of_run(config, path: pathlib.Path, label: str, step: int | None) -> Model:
  from asc_jax.rl import checkpointing

  steps = checkpointing.complete_steps(path)
  if not steps or (step is not None and step not in steps):
    there = ", ".join(map(str, steps)) or "none"
    raise UserError(
      f"--models: {path} holds no complete checkpoint{'' if step is None else f' of step {step}'}; "
      f"complete steps: {there}"
    )
  step = steps[-1] if step is None else step
  saved = checkpointing.meta(path, step)["config"]
  of = copy.deepcopy(config)
  for name in ("model.path", *(n for n in config_lib.FIELDS if n.startswith("model.lora."))):
    config_lib.assign(of, name, saved[name])
  return Model(label, step, saved["method"], of, path)


def find_jobs(models: Sequence[Model], folder: pathlib.Path) -> list[Job]:
  """Every model's questions on every corpus, and where its records go; a model's together."""
  asked: dict[str, dict[str, list]] = {}
  jobs = []
  for model in models:
    path = model.config.model.path
    if path not in asked:  # checkpoints of one base model share their prompts
      asked[path] = read_corpora(model.config)
    stem = re.sub(r"[^A-Za-z0-9.-]+", "_", model.label)
    for corpus, questions in asked[path].items():
      target = folder / "records" / corpus / f"{stem}_{model.step:06d}.jsonl"
      jobs.append(Job(model, corpus, questions, target))
  return jobs


def read_corpora(config) -> dict[str, list]:
  """{corpus: questions} of config.eval, with their prompts for config.model.

  Raises:
    UserError: paths that do not match the corpora, or a corpus that comes twice.
  """
  from asc_jax.data import corpora, splits
  from asc_jax.models import checkpoints
  from asc_jax.rl import corver_trainer, loop, rollouts, trainer

  settings, data = config.eval, config.data
  source = settings if settings.corpus else data
  names, path = split_names(source.corpus), source.path
  if not names:
    raise UserError(f"config.eval.corpus={source.corpus} names no corpus")
  paths = [None] * len(names) if path is None else path.split(",")
  if len(paths) != len(names):
    raise UserError(
      f"config.eval.corpus names {len(names)} corpora and config.eval.path {len(paths)} paths; "
      "give one path each, with commas between"
    )
  tokenizer = checkpoints.load_tokenizer(config.model.path)
  found: dict[str, list] = {}
  for name, where in zip(names, paths, strict=True):
    of = copy.deepcopy(config)
    of.data.corpus = name  # named by errors
    examples, dropped = corpora.read(name, where or None, passage_words=data.passage_words)
    chosen = splits.select(examples, settings.split)
    first = chosen[: settings.questions] if data.overlong == "cut" else chosen  # some drop out
    work = loop.Work(*rollouts.prepare(tokenizer, first, of))
    if config.corver.on:
      work = corver_trainer.with_aliases(work, name)
      if config.corver.verifier == "checker":
        work = trainer.with_passages(work, of)
    questions = work.questions
    corpus = questions[0].example.corpus
    if corpus in found:
      raise UserError(f"config.eval.corpus gives {corpus} twice; evaluate each corpus once")
    found[corpus] = questions[: settings.questions]
    reasons = {**dropped, **work.counts}
    left_out = "".join(f"; {reason}: {n}" for reason, n in reasons.items() if n)
    logging.info("%s: %d of %d questions%s", corpus, len(found[corpus]), len(chosen), left_out)
  return found


def relevant(config) -> dict[str, Any]:
  """The fields that answers and scores depend on, as JSON keeps them."""
  irrelevant = IRRELEVANT if config.corver.on else (*IRRELEVANT, "corver.")
  flat = {n: v for n, v in config_lib.flatten(config).items() if not n.startswith(irrelevant)}
  return json.loads(json.dumps(flat))


def check_folder(
  folder: pathlib.Path, settings: Mapping[str, Any], jobs: Sequence[Job], schema
) -> None:
  """Raises UserError where DIR holds records that do not belong with these."""
  from asc_jax.evaluation import records
  from asc_jax.rl import checkpointing

  path = folder / "evaluation.json"
  if path.exists():
    try:
      saved = json.loads(path.read_text(encoding="utf-8"))
      old, new = ({**s["config"], "--instruments": s["instruments"]} for s in (saved, settings))
    except (ValueError, LookupError, TypeError) as error:
      raise UserError(f"{path} is damaged ({error}); choose another --workdir") from None
    if changes := checkpointing.config_diff(old, new, harmless=()):
      raise UserError(
        f"--workdir={folder} holds an evaluation of another config ({'; '.join(changes)}); choose "
        "another --workdir"
      )
  wanted = {(job.model.label, job.model.step, job.corpus) for job in jobs}
  targets = {job.path for job in jobs}
  for path in sorted((folder / "records").rglob("*.jsonl")):
    there = {(r["run"], r["step"], r["corpus"]) for r in records.read(path, schema)}
    if path not in targets and (both := wanted & there):
      label, step, corpus = min(both)
      raise UserError(
        f"{path} holds answers of {label} at step {step} to {corpus} already; choose another "
        "--workdir"
      )


def write_settings(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
  partial = folder / "evaluation.json.partial"
  partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
  os.replace(partial, folder / "evaluation.json")


def run(jobs: Sequence[Job], mesh, kind, scorers: Mapping[str, Any]) -> dict[str, dict[str, list]]:
  """{corpus: {model: records}}; a model is read only where some of its answers are missing."""
  from asc_jax.evaluation import records

  answers: dict[str, dict[str, list]] = {}
  loaded, policy = None, None
  for job in jobs:
    model = job.model
    if not job.path.exists():
      if loaded is not model:
        policy = None  # the model before makes room
        loaded, policy = model, load_policy(model, mesh)
      answer(job, policy, mesh, kind, scorers)
    rows = records.read(job.path, kind.schema)
    logging.info("%s: %d answers", job.path, len(rows))
    heading = f"{model.label}@{model.step}" if model.step else model.label
    answers.setdefault(job.corpus, {})[heading] = rows
  return answers


def answer(job: Job, policy, mesh, kind, scorers: Mapping[str, Any]) -> None:
  """Writes the records of one job."""
  from asc_jax.models import checkpoints
  from asc_jax.text import prompts

  weights, tokenizer = policy
  generation = checkpoints.check(job.model.config.model.path).generation
  evaluator = kind(
    tokenizer=tokenizer,
    questions=job.questions,
    config=job.model.config,
    mesh=mesh,
    stop_ids=prompts.stop_ids(tokenizer, generation),
    run_label=job.model.label,
    method=job.model.method,
    **scorers,
  )
  evaluator.run(weights, job.model.step, job.path)


def load_scorers(config, names: Sequence[str], mesh) -> dict[str, Any]:
  """Who scores the sentences, as the evaluator's arguments.

  Raises:
    UserError: an instrument counts twice, or has nothing to score.
  """
  from asc_jax import checkers
  from asc_jax.checkers import placement
  from asc_jax.rl import corver_trainer

  if config.corver.on:
    if names:
      raise UserError("--instruments: config.corver.on scores by config.corver alone; leave it out")
    return {"checker": None, "verifier": corver_trainer.load_verifier(config, mesh)}
  found = [checkers.from_config(config.checker, mesh)]
  place = placement.make_mesh(config.checker.devices, mesh)
  for text in names:
    name, _, path = text.partition(":")
    found.append(checkers.load(name, path or None, mesh=place))
    if found[-1].name in [checker.name for checker in found[:-1]]:
      raise UserError(
        f"--instruments={text}: {found[-1].name} scores already; name each instrument once"
      )
  return {"checker": found[0], "others": found[1:]}


def load_policy(model: Model, mesh):
  """(weights, tokenizer) of a model."""
  from asc_jax.models import checkpoints
  from asc_jax.rl import loop, trained

  settings = model.config.model
  dtype = loop.compute_type(settings.dtype)
  if model.run is not None:
    _, *both = trained.load(model.config, model.run, step=model.step, dtype=dtype, mesh=mesh)
    return both
  return checkpoints.load(
    settings.path,
    dtype=dtype,
    mesh=mesh,
    attention=settings.attention,
    remat=settings.remat,
  )


if __name__ == "__main__":
  cli.run(
    main,
    needs_workdir=True,
    models=Field(None, "who answers: base, RUN, RUN@STEP, FOLDER, with commas", optional=True),
    instruments=Field(
      None, "who scores besides config.checker: NAME or NAME:PATH, with commas", optional=True
    ),
  )

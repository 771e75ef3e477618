"""The training loop: sample, read, score, update, write down, save.

`Trainer` reads and checks everything cheap first, so that bad input is refused
before any weights load.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from ml_collections import config_dict
from tqdm import tqdm

from asc_jax import checkers, sharding
from asc_jax import config as config_lib
from asc_jax.data import corpora, pipeline, splits
from asc_jax.models import checkpoints, decoder, lora
from asc_jax.rl import checkpointing, logs, rollouts, sampler, update
from asc_jax.text import prompts
from asc_jax.types import Batch, Rollout, UserError, Weighted


class Work(NamedTuple):
  """What a run reads, checked: questions of a split, and what was left out."""

  questions: list[rollouts.Question]
  counts: dict[str, int]


def read_questions(
  tokenizer, corpus: str, path: str | None, split: str, config: config_dict.ConfigDict
) -> Work:
  """The questions of one split of a corpus, with their prompts.

  Raises:
    UserError: a missing or malformed file, or no usable question.
  """
  examples, dropped = corpora.read(corpus, path, passage_words=config.data.passage_words)
  chosen = splits.select(examples, split)
  questions, counts = rollouts.prepare(tokenizer, chosen, config)
  return Work(questions, {**dropped, **counts})


def with_passages(work: Work, config: config_dict.ConfigDict) -> Work:
  """The questions whose answers can be supported: a credit needs passages.

  Raises:
    UserError: no question has any.
  """
  kept = [q for q in work.questions if q.example.passages]
  if not kept:
    raise UserError(
      f"config.data.corpus={config.data.corpus} has no passages, and config.method="
      f"{config.method} rewards what passages support; choose a corpus that has them"
    )
  dropped = len(work.questions) - len(kept)
  return Work(kept, {**work.counts, "no passages": work.counts.get("no passages", 0) + dropped})


def compute_type(name: str) -> str:
  """`config.model.dtype` with auto resolved for the platform."""
  if name != "auto":
    return name
  return "float32" if jax.default_backend() == "cpu" else "bfloat16"


def set_compilation_cache(setting: str) -> None:
  """Turns the persistent compilation cache on (config.train.compilation_cache).

  On CPUs "auto" leaves it off: XLA writes executables there that later runs on
  the same machine reject, with errors in the log and a full recompile each
  (jax-ml/jax#38445).
  """
  if setting == "none" or (setting == "auto" and jax.default_backend() == "cpu"):
    return
  folder = pathlib.Path.home() / ".cache/asc_jax/xla" if setting == "auto" else setting
  jax.config.update("jax_compilation_cache_dir", str(folder))


class Trainer:
  """A policy, its instruments and its optimizer, and the four parts of a step.

  Args:
    config: validated, see asc_jax/config.py.
    workdir: where checkpoints, metrics and records go; None keeps nothing
      (notebooks, tests).

  Raises:
    UserError: bad input, before weights load.
  """

  def __init__(self, config: config_dict.ConfigDict, workdir: pathlib.Path | None = None):
    config_lib.validate(config)
    if jax.process_count() > 1:
      raise UserError(f"{jax.process_count()} hosts were found; a run takes one host today")
    if config.corver.on:
      raise UserError(
        "config.method=corver is not wired into training yet; its index and reward are in "
        "asc_jax.tools.corver_index and asc_jax.corver"
      )
    set_compilation_cache(config.train.compilation_cache)
    self.config = config
    self.settings = update.objective(config)
    self.clock = logs.Clock()
    with self.clock("read corpus and tokenizer"):
      checkpoint = checkpoints.check(config.model.path)
      self.tokenizer = checkpoints.load_tokenizer(config.model.path)
      self.train_work = read_questions(
        self.tokenizer, config.data.corpus, config.data.path, config.data.split, config
      )
      corpora.check_trainable(q.example for q in self.train_work.questions)
      self.train_work = with_passages(self.train_work, config)
      self.eval_work = self._read_eval_questions()
      self.stop_ids = prompts.stop_ids(self.tokenizer, checkpoint.generation)
      self.iterator = pipeline.batches(
        self.train_work.questions,
        batch_size=config.data.batch_size,
        seed=config.seed,
        host_index=jax.process_index(),
        host_count=jax.process_count(),
      )
    self.steps = self._count_steps()
    self.mesh = self._make_mesh()
    if workdir is not None:
      self._check_resume(workdir)
    with self.clock("load weights"):
      self.checker = checkers.from_config(config.checker)
      if workdir is not None:
        checkpointing.make_workdir(workdir)  # nothing is written before all else is right
      model = self._load_model()
    self.sampling = sampler.Sampling(
      group_size=config.rollout.group_size,
      max_tokens=config.rollout.max_tokens,
      temperature=config.rollout.temperature,
      top_k=config.rollout.top_k,
      top_p=config.rollout.top_p,
      stop_ids=self.stop_ids,
    )
    optimizer, schedule = update.make_optimizer(
      config.optimizer, self.steps * config.train.updates_per_batch
    )
    self._update = update.make_update(optimizer, schedule, self.settings)
    # A full fine-tune needs a second copy of the weights as its reference; an
    # adapter's reference is the same weights with the adapter off.
    self._frozen_reference = None
    if config.loss.beta and not config.model.lora.rank:
      self._frozen_reference = jax.tree.map(jnp.copy, model)
    self.train_state = update.init(model, optimizer, self.mesh)
    self.key = jax.random.key(config.seed)
    self.checkpoints = None
    if workdir is not None:
      self.checkpoints = checkpointing.Checkpoints(workdir, config.train.keep)
    self.first_step = self._restore()

  def _read_eval_questions(self) -> Work:
    settings, data = self.config.eval, self.config.data
    if not settings.questions:
      return Work([], {})
    source = (settings.corpus, settings.path) if settings.corpus else (data.corpus, data.path)
    work = read_questions(self.tokenizer, *source, settings.split, self.config)
    return work._replace(questions=work.questions[: settings.questions])

  def _count_steps(self) -> int:
    if self.config.train.epochs is None:
      return self.config.train.steps
    return round(
      self.config.train.epochs * len(self.train_work.questions) / self.config.data.batch_size
    )

  def _make_mesh(self) -> jax.sharding.Mesh:
    axes = self.config.mesh
    mesh = sharding.make_mesh(axes.data, axes.fsdp, axes.tensor)
    parts = mesh.shape["data"] * mesh.shape["fsdp"] * self.settings.micro_batches
    if self.config.data.batch_size % parts:
      raise UserError(
        f"config.data.batch_size={self.config.data.batch_size} does not divide among the mesh's "
        f"{parts} parts (data * fsdp * micro-batches)"
      )
    return mesh

  def _load_model(self) -> decoder.DecoderState:
    model = self.config.model
    state, _ = checkpoints.load(
      model.path,
      dtype=compute_type(model.dtype),
      lora=lora.from_config(model.lora),
      mesh=self.mesh,
      seed=self.config.seed,
      attention=model.attention,
      remat=model.remat,
    )
    return state

  # Restarting.

  def _meta(self) -> dict[str, Any]:
    return {
      "config": config_lib.flatten(self.config),
      "cursor": json.dumps(self.iterator.get_state()),
    }

  def _check_resume(self, workdir: pathlib.Path):
    latest = checkpointing.latest_step(workdir)
    if latest is not None:
      checkpointing.refuse_changed_config(
        checkpointing.meta(workdir, latest)["config"],
        config_lib.flatten(self.config),
        self.config.train.allow_config_change,
      )

  def _restore(self) -> int:
    """Loads the newest checkpoint, if any; the step to go on from."""
    latest = self.checkpoints.latest() if self.checkpoints else None
    if self.checkpoints is None or latest is None:
      return 0
    with self.clock("restore"):
      saved = checkpointing.restore(self.checkpoints.workdir, latest, self._saved())
      model = self.train_state.model.with_trainable(saved["trainable"])
      self.train_state = update.TrainState(
        model, saved["opt_state"], saved["step"], saved["bad_steps"]
      )
      self.iterator.set_state(
        json.loads(checkpointing.meta(self.checkpoints.workdir, latest)["cursor"])
      )
    logging.info("resumed from step %d", latest)
    return latest

  def _saved(self) -> dict[str, Any]:
    state = self.train_state
    return {
      "trainable": state.model.trainable(),
      "opt_state": state.opt_state,
      "step": state.step,
      "bad_steps": state.bad_steps,
    }

  def save(self, step: int):
    if self.checkpoints is not None:
      with self.clock("checkpoint"):
        self.checkpoints.save(step, self._saved(), self._meta())

  def digest(self) -> str:
    """SHA-256 of the trained parameters."""
    return checkpointing.digest(self.train_state.model.trainable())

  # The parts of a step.

  @property
  def model(self) -> decoder.DecoderState:
    return self.train_state.model

  @property
  def reference(self) -> decoder.DecoderState:
    """The policy before training."""
    if self._frozen_reference is not None:
      return self._frozen_reference
    return self.model.reference()

  def rollout(
    self, questions: Sequence[rollouts.Question], step: int
  ) -> tuple[Batch, list[list[rollouts.Answer]]]:
    """Samples answers to questions, splits and scores them.

    Args:
      questions: this host's share of the step's B questions.
      step: selects the random keys.

    Returns:
      A Batch on the device, and B lists of G answers.
    """
    config = self.config
    prompt = rollouts.batch_prompts(questions, config.data.prompt_buckets)
    prompt = sharding.spread_questions(prompt, self.mesh)
    with self.clock("compile and dispatch"), jax.set_mesh(self.mesh):
      key = jax.random.fold_in(self.key, step)
      drawn = sampler.sample(self.model, prompt, key, self.sampling)
    with self.clock("update"):  # of the step before, in front of this generation
      jax.block_until_ready(self.train_state.step)
    with self.clock("generation"):
      host = Rollout(*map(np.asarray, drawn))
    reference = old = None
    with self.clock("compile and dispatch"), jax.set_mesh(self.mesh):
      if config.loss.beta:  # runs while the host reads the answers
        reference = update.log_probs(self.reference, prompt, drawn.tokens, self.settings)
      if config.train.updates_per_batch > 1:
        old = update.log_probs(self.model, prompt, drawn.tokens, self.settings)
    with self.clock("sentences and copies"):
      answers = rollouts.read_answers(self.tokenizer, questions, host, config.text)
      most = max(len(a.spans) for group in answers for a in group)
      bucket = rollouts.sentence_bucket(most)
      packed = rollouts.pack_sentences(
        answers, config.rollout.max_tokens, config.text.empty_answer, bucket
      )
      mask = rollouts.token_mask(host, packed.ids, config.rollout.truncated)
    with self.clock("checker"):
      scores = rollouts.score(
        self.checker, questions, answers, bucket, score_copied=config.checker.score_copied
      )
    mask, packed, scores = sharding.spread_questions((mask, packed, scores), self.mesh)
    return Batch(prompt, drawn, mask, packed, scores, old, reference), answers

  def update(self, batch: Batch) -> dict[str, Weighted]:
    """Applies the configured updates; metrics stay on the device."""
    with self.clock("compile and dispatch"), jax.set_mesh(self.mesh):
      for _ in range(self.config.train.updates_per_batch):
        self.train_state, metrics = self._update(self.train_state, batch)
    return metrics

  # The loop.

  def run(
    self,
    workdir: pathlib.Path,
    evaluate: Callable[[Trainer, int], None] | None = None,
  ) -> dict[str, float]:
    """Trains to `config.train.steps` and saves; returns means over this run's steps.

    Args:
      workdir: metrics.jsonl, TensorBoard files and checkpoints go there.
      evaluate: called with the number of updates done, at the config's interval.
    """
    config = self.config
    writer = logs.MetricsWriter(workdir, self.first_step)
    bar = tqdm(total=self.steps, initial=self.first_step, desc=config.method, unit="step")
    totals: dict[str, list[float]] = {}
    pending = None

    def flush():
      nonlocal pending
      if pending is not None:
        step, device, host = pending
        values = {name: float(m.total) / max(float(m.weight), 1e-9) for name, m in device.items()}
        values |= host
        writer.write(step, values)
        for name, value in values.items():
          totals.setdefault(name, []).append(value)
        bar.set_postfix_str(logs.postfix(values))
        pending = None
        self._stop_if_diverged(values, step)

    try:
      started = time.perf_counter()
      for step in range(self.first_step, self.steps):
        batch, answers = self.rollout(next(self.iterator), step)
        device = self.update(batch)
        flush()  # the step before: its update ended before this one's generation
        host = rollouts.text_metrics(answers)
        ended = time.perf_counter()
        host["time/step"], started = ended - started, ended
        tokens = sum(len(a.ids) for group in answers for a in group)
        host["time/tokens_per_second"] = tokens / host["time/step"]
        pending = (step + 1, device, host)
        bar.update()
        self._periodic(step + 1, flush, evaluate)
      with self.clock("update"):
        jax.block_until_ready(self.train_state.step)
      flush()
    finally:
      bar.close()
      writer.close()
    if self.checkpoints is not None:
      if self.checkpoints.latest() != self.steps:
        self.save(self.steps)
      with self.clock("checkpoint"):
        self.checkpoints.wait()
    return {name: float(np.mean(values)) for name, values in totals.items()}

  def _periodic(self, done: int, flush: Callable[[], None], evaluate):
    train = self.config.train
    if train.checkpoint_every and done % train.checkpoint_every == 0 and done < self.steps:
      flush()  # a checkpoint never lies ahead of the metrics file
      self.save(done)
    if evaluate and train.eval_every and done % train.eval_every == 0 and done < self.steps:
      evaluate(self, done)

  def _stop_if_diverged(self, values: dict[str, float], step: int):
    if values["optimizer/skipped"]:
      bad = int(self.train_state.bad_steps)
      logging.warning("step %d: the loss or a gradient is not finite; update skipped", step)
      if bad >= self.config.train.max_bad_steps:
        raise UserError(
          f"{bad} updates had a non-finite loss or gradient (config.train.max_bad_steps); "
          "lower config.optimizer.learning_rate or look at the last batch's metrics"
        )

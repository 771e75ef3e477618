"""The loop that all methods share: read, batch, update, write down, save.

`Loop` reads and checks everything cheap first, so that bad input is refused before
any weights load. What a batch is and what its loss is, a method's subclass says.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from ml_collections import config_dict
from tqdm import tqdm

from asc_jax import checkers, sharding
from asc_jax import config as config_lib
from asc_jax.data import corpora, files, pipeline, splits
from asc_jax.models import checkpoints, decoder, lora
from asc_jax.rl import checkpointing, logs, rollouts, update
from asc_jax.text import prompts
from asc_jax.types import Sample, UserError, Weighted


class Work(NamedTuple):
  """What a run reads, checked: questions of a split, and what was left out."""

  questions: list[Any]  # rollouts.Question, or what a method makes of it
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


def training_questions(tokenizer, config: config_dict.ConfigDict) -> Work:
  """The questions of `config.data`.

  Raises:
    UserError: as `read_questions`, and for a corpus that nothing may be trained on.
  """
  data = config.data
  work = read_questions(tokenizer, data.corpus, data.path, data.split, config)
  corpora.check_trainable(q.example for q in work.questions)
  return work


def make_mesh(config: config_dict.ConfigDict, micro_batches: int = 1) -> jax.sharding.Mesh:
  """The config's mesh, over which each micro-batch of questions is spread.

  Raises:
    UserError: too few devices, or questions that do not divide among them.
  """
  mesh = sharding.make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
  parts = mesh.shape["data"] * mesh.shape["fsdp"] * micro_batches
  if config.data.batch_size % parts:
    raise UserError(
      f"config.data.batch_size={config.data.batch_size} does not divide among the mesh's "
      f"{parts} parts (data * fsdp * micro-batches)"
    )
  return mesh


def check_model(config: config_dict.ConfigDict) -> checkpoints.Checkpoint:
  """The policy's checkpoint, held to the longest prompt and answer.

  Raises:
    UserError: it is damaged, of no known kind, or made for fewer tokens.
  """
  found = checkpoints.check(config.model.path)
  prompt = max(config.data.prompt_buckets)
  answer = max(config.rollout.max_tokens, config.eval.max_tokens or 0)
  if found.positions is not None and prompt + answer > found.positions:
    raise UserError(
      f"{found.path} was made for {found.positions} tokens (max_position_embeddings); a prompt of "
      f"{prompt} (config.data.prompt_buckets) and an answer of {answer} (config.rollout.max_tokens, "
      "config.eval.max_tokens) are more; lower one of them"
    )
  return found


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
  if setting != "auto":
    files.check_folder(folder, "config.train.compilation_cache")
  jax.config.update("jax_compilation_cache_dir", str(folder))


class Loop:
  """A model, its optimizer, the data and the checkpoints of one run.

  Subclasses give `read_training`, `gradients` and `batch`, and may extend `prepare`.

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
    if config.train.wandb and importlib.util.find_spec("wandb") is None:
      raise UserError("config.train.wandb needs the package wandb: pip install wandb")
    set_compilation_cache(config.train.compilation_cache)
    self.config = config
    self.settings = self.objective()
    self.key = jax.random.key(config.seed)
    self.clock = logs.Clock()
    with self.clock("read corpus and tokenizer"):
      checkpoint = check_model(config)
      self.tokenizer = checkpoints.load_tokenizer(config.model.path)
      self.stop_ids = prompts.stop_ids(self.tokenizer, checkpoint.generation)
      self.train_work = self.read_training()
      self.eval_work = self._read_eval_questions()
      self.iterator = self._batches()
    self.steps = self._count_steps()
    self.mesh = make_mesh(config, self.settings.micro_batches)
    if workdir is not None:
      files.check_folder(workdir, "--workdir")
      self._check_resume(workdir)
    with self.clock("load weights"):
      self.checker = self.load_checker()
      if workdir is not None:
        files.make_folder(workdir, "--workdir")  # nothing is written before all else is right
      model = self._load_model()
    optimizer, schedule = update.make_optimizer(
      config.optimizer, self.steps * config.train.updates_per_batch
    )
    self._update = update.make_update(optimizer, schedule, self.gradients)
    # A full fine-tune needs a second copy of the weights as its reference; an
    # adapter's reference is the same weights with the adapter off.
    self._frozen_reference = None
    if self.needs_reference and not config.model.lora.rank:
      self._frozen_reference = jax.tree.map(jnp.copy, model)
    self.train_state = update.init(model, optimizer, self.mesh)
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

  def _batches(self):
    """Batches of `train_work`'s questions; its state is part of a checkpoint."""
    return pipeline.batches(
      self.train_work.questions,
      batch_size=self.config.data.batch_size,
      seed=self.config.seed,
      host_index=jax.process_index(),
      host_count=jax.process_count(),
    )

  def _count_steps(self) -> int:
    if self.config.train.epochs is None:
      return self.config.train.steps
    epochs, questions = self.config.train.epochs, len(self.train_work.questions)
    return max(1, round(epochs * questions / self.config.data.batch_size))

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

  # What a method says.

  @property
  def needs_reference(self) -> bool:
    """Whether the loss compares with the policy before training."""
    return False

  def objective(self) -> update.Objective:
    """The static settings of the update."""
    return update.objective(self.config)

  def load_checker(self) -> Any:
    """The checker of the evaluation, and of what subclasses reward; None where none is needed."""
    if not self.eval_work.questions:
      return None
    return checkers.from_config(self.config.checker, self.mesh)

  def read_training(self) -> Work:
    """What the run trains on, `config.data`'s; items of `questions` go to `batch`."""
    raise NotImplementedError

  def gradients(self, model: decoder.DecoderState, batch: Any) -> update.Gradients:
    """Loss, gradients and metrics of a device batch; traced."""
    raise NotImplementedError

  def batch(self, items: Sequence[Any], step: int) -> tuple[Any, logs.Host]:
    """A device batch of this host's share of a step's items, and what the host saw of it."""
    raise NotImplementedError

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

  def update(self, batch: Any) -> dict[str, Weighted | Sample]:
    """Applies the configured updates; their metrics, added up, stay on the device."""
    with self.clock("compile and dispatch"), jax.set_mesh(self.mesh):
      self.train_state, metrics = self._update(self.train_state, batch)
      for _ in range(self.config.train.updates_per_batch - 1):
        self.train_state, more = self._update(self.train_state, batch)
        metrics = {name: _added(metrics[name], more[name]) for name in more}
    return metrics

  # The loop.

  def run(
    self,
    workdir: pathlib.Path,
    evaluate: Callable[[Loop, int], None] | None = None,
  ) -> dict[str, float]:
    """Trains to the last step and saves; returns means over this run's steps.

    Args:
      workdir: metrics.jsonl, TensorBoard files and checkpoints go there.
      evaluate: called with the number of updates done, at the config's interval.
    """
    config = self.config
    writer = logs.MetricsWriter(workdir, self.first_step, config.train.wandb)
    bar = tqdm(total=self.steps, initial=self.first_step, desc=config.method, unit="step")
    totals: dict[str, list[float]] = {}
    pending = None

    def flush():
      nonlocal pending
      if pending is not None:
        step, values = pending[0], write_step(writer, *pending)
        pending = None
        for name, value in values.items():
          totals.setdefault(name, []).append(value)
        bar.set_postfix_str(logs.postfix(values))
        self._stop_if_diverged(values, step)

    try:
      started = time.perf_counter()
      for step in range(self.first_step, self.steps):
        batch, host = self.batch(next(self.iterator), step)
        device = self.update(batch)
        flush()  # the step before: its update ended before this one's batch was complete
        ended = time.perf_counter()
        host.scalars["time/step"] = ended - started
        host.scalars["time/tokens_per_second"] = host.tokens / (ended - started)
        started = ended
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


def _added(before: Weighted | Sample, after: Weighted | Sample) -> Weighted | Sample:
  """A metric over two updates: sums add up; of a distribution the later one is shown."""
  if isinstance(after, Weighted):
    return Weighted(before[0] + after.total, before[1] + after.weight)
  return after


def write_step(
  writer: logs.MetricsWriter, step: int, device: Mapping[str, Weighted | Sample], host: logs.Host
) -> dict[str, float]:
  """Writes down what device and host saw of a step; returns its scalars."""
  values = {}
  for name, metric in device.items():
    if isinstance(metric, Weighted):
      values[name] = float(metric.total) / max(float(metric.weight), 1e-9)
    else:
      writer.histogram(step, name, np.asarray(metric.values)[np.asarray(metric.mask)])
  values |= host.scalars
  writer.write(step, values)
  for name, text in host.texts.items():
    writer.text(step, name, text)
  return values

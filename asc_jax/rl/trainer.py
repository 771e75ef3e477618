"""Reinforcement learning: sample, read, score, update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import config_dict

from asc_jax import checkers, sharding
from asc_jax.models import decoder
from asc_jax.rl import logs, loop, rollouts, sampler, update
from asc_jax.types import Array, Batch, Prompts, Rollout, UserError


class Drawn(NamedTuple):
  """Sampled answers, before anything has read them."""

  prompts: Prompts  # on the device, as are the next and the last two
  rollout: Rollout
  host: Rollout  # NumPy arrays
  old_logps: Array | None  # float32[B, G, T]; None: one update a batch
  ref_logps: Array | None  # float32[B, G, T]; None: no reference


class SampledLoop(loop.Loop):
  """A loop whose batches are answers that the policy samples."""

  @property
  def needs_reference(self) -> bool:
    return self.config.loss.beta > 0

  @property
  def sampling(self) -> sampler.Sampling:
    return sampler.from_config(self.config.rollout, self.stop_ids)

  def draw(self, questions: Sequence[rollouts.Question], step: int) -> Drawn:
    """Samples answers to this host's share of a step's questions.

    Args:
      questions: this host's share of the step's B questions.
      step: selects the random keys.
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
    return Drawn(prompt, drawn, host, old, reference)


class Trainer(SampledLoop):
  """Trains on credit of sampled answers: ASC, and all that differs by fields from it."""

  def read_training(self) -> loop.Work:
    return with_passages(loop.training_questions(self.tokenizer, self.config), self.config)

  def load_checker(self) -> checkers.Checker:
    return checkers.from_config(self.config.checker, self.mesh)

  def gradients(self, model: decoder.DecoderState, batch: Batch) -> update.Gradients:
    return update.gradients(model, batch, self.settings)

  def batch(self, items: Sequence[rollouts.Question], step: int) -> tuple[Batch, logs.Host]:
    batch, answers = self.rollout(items, step)
    text = f"**{items[0].example.question}**\n\n{answers[0][0].text}"
    tokens = sum(len(a.ids) for group in answers for a in group)
    return batch, logs.Host(rollouts.text_metrics(answers), tokens, {"answer": text})

  def rollout(
    self, questions: Sequence[rollouts.Question], step: int
  ) -> tuple[Batch, list[list[rollouts.Answer]]]:
    """Samples answers to questions (see `draw`), splits and scores them.

    Returns:
      A Batch on the device, and B lists of G answers.
    """
    config = self.config
    prompt, drawn, host, old, reference = self.draw(questions, step)
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


def with_passages(work: loop.Work, config: config_dict.ConfigDict) -> loop.Work:
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
  return loop.Work(
    kept, {**work.counts, "no passages": work.counts.get("no passages", 0) + dropped}
  )

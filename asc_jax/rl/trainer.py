"""Reinforcement learning: sample, read, score, update."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from ml_collections import config_dict

from asc_jax import sharding
from asc_jax.data import corpora
from asc_jax.models import decoder
from asc_jax.rl import logs, loop, rollouts, sampler, update
from asc_jax.types import Batch, Rollout, UserError


class Trainer(loop.Loop):
  """Trains on credit of sampled answers: ASC, and all that differs by fields from it."""

  @property
  def needs_reference(self) -> bool:
    return self.config.loss.beta > 0

  def read_training(self) -> loop.Work:
    config = self.config
    work = loop.read_questions(
      self.tokenizer, config.data.corpus, config.data.path, config.data.split, config
    )
    corpora.check_trainable(q.example for q in work.questions)
    return with_passages(work, config)

  def gradients(self, model: decoder.DecoderState, batch: Batch) -> update.Gradients:
    return update.gradients(model, batch, self.settings)

  def batch(self, items: Sequence[rollouts.Question], step: int) -> tuple[Batch, logs.Host]:
    batch, answers = self.rollout(items, step)
    text = f"**{items[0].example.question}**\n\n{answers[0][0].text}"
    tokens = sum(len(a.ids) for group in answers for a in group)
    return batch, logs.Host(rollouts.text_metrics(answers), tokens, {"answer": text})

  @property
  def sampling(self) -> sampler.Sampling:
    config = self.config.rollout
    return sampler.Sampling(
      group_size=config.group_size,
      max_tokens=config.max_tokens,
      temperature=config.temperature,
      top_k=config.top_k,
      top_p=config.top_p,
      stop_ids=self.stop_ids,
    )

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

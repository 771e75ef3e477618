"""Direct preference optimisation on pairs of sampled answers (config.method=dpo).

Both answers of a pair share the prompt's prefix (G = 2), under the policy as under the
reference. Log-probabilities are those at temperature 1, whatever the pairs were sampled at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from asc_jax import sharding
from asc_jax.data import preferences
from asc_jax.models import decoder
from asc_jax.objective import losses
from asc_jax.rl import logs, loop, rollouts, update
from asc_jax.text import prompts
from asc_jax.types import Array, Prompts, UserError


class Task(NamedTuple):
  """A question with two answers as tokens, the preferred one first."""

  question: rollouts.Question
  answers: tuple[tuple[int, ...], tuple[int, ...]]


class Pairs(NamedTuple):
  """A device batch of pairs; on axis 1 the chosen answer, then the rejected one."""

  prompts: Prompts
  tokens: Array  # int32[B, 2, T], the end-of-turn token of a finished answer included
  mask: Array  # bool[B, 2, T]
  ref_logps: Array  # float32[B, 2, T]


def tasks(
  tokenizer,
  questions: Sequence[rollouts.Question],
  pairs: Sequence[preferences.Pair],
  end: int,
  max_tokens: int,
) -> tuple[list[Task], Counter[str]]:
  """Joins pairs to their questions, and tokenises them.

  Args:
    tokenizer: the policy's.
    questions: prepared, those that may be trained on.
    pairs: of these and other questions.
    end: the token that ends a finished answer.
    max_tokens: tokens an answer, its end included; a pair with a longer one is left out.

  Returns:
    The tasks in the questions' order, and counts of what was left out, by reason.
  """
  by_id = {pair[:2]: pair for pair in pairs}  # corpus and id
  found, counts = [], Counter[str]()
  for question in questions:
    pair = by_id.pop((question.example.corpus, question.example.id), None)
    if pair is None:
      counts["no pair"] += 1
      continue
    chosen, rejected = (
      (*prompts.encode_text(tokenizer, a.answer), *[end] * a.finished)
      for a in (pair.chosen, pair.rejected)
    )
    if max(len(chosen), len(rejected)) > max_tokens:
      counts[f"pairs with an answer over {max_tokens} tokens"] += 1
    else:
      found.append(Task(question, (chosen, rejected)))
  counts["pairs of other questions"] = len(by_id)
  return found, +counts


def gradients(
  model: decoder.DecoderState, batch: Pairs, settings: update.Objective, beta: float
) -> update.Gradients:
  """DPO's loss, a mean over pairs."""

  def loss(trainable, micro: Pairs):
    logps = update.answer_log_probs(
      model.with_trainable(trainable), micro.prompts, micro.tokens, settings
    )
    chosen, rejected = jnp.where(micro.mask, logps, 0.0).sum(-1).T  # [B] each
    reference = jnp.where(micro.mask, micro.ref_logps, 0.0).sum(-1).T
    total, pairs, metrics = losses.dpo_loss(chosen, rejected, *reference, beta=beta)
    return total, (pairs, {f"loss/{name}": metric for name, metric in metrics.items()})

  return update.accumulate(loss, model, batch, settings.micro_batches)


class Dpo(loop.Loop):
  """Trains on the pairs of `config.dpo.pairs`."""

  needs_reference = True

  def objective(self) -> update.Objective:
    return super().objective()._replace(temperature=1.0)

  def read_training(self) -> loop.Work:
    config = self.config
    if config.dpo.pairs is None:
      raise UserError(
        f"config.method={config.method} needs config.dpo.pairs=FILE, the pairs that "
        "python -m asc_jax.tools.make_pairs writes"
      )
    pairs = preferences.read(config.dpo.pairs, config.dpo.copy_tolerance)
    work = loop.training_questions(self.tokenizer, config)
    found, counts = tasks(
      self.tokenizer,
      work.questions,
      pairs,
      prompts.end_of_turn(self.tokenizer, self.stop_ids),
      config.rollout.max_tokens,
    )
    if not found:
      reasons = "; ".join(f"{reason}: {count}" for reason, count in counts.items())
      raise UserError(
        f"{config.dpo.pairs} has no usable pair for the part {config.data.split!r} of "
        f"config.data.corpus={config.data.corpus} ({reasons})"
      )
    return loop.Work(found, {**work.counts, **counts})

  def gradients(self, model: decoder.DecoderState, batch: Pairs) -> update.Gradients:
    return gradients(model, batch, self.settings, self.config.dpo.beta)

  def batch(self, items: Sequence[Task], step: int) -> tuple[Pairs, logs.Host]:
    prompt = rollouts.batch_prompts([t.question for t in items], self.config.data.prompt_buckets)
    tokens, mask = rollouts.pad_answers(
      [t.answers for t in items], 2, self.config.rollout.max_tokens
    )
    count = int(mask.sum())
    prompt, tokens, mask = sharding.spread_questions((prompt, tokens, mask), self.mesh)
    with self.clock("compile and dispatch"), jax.set_mesh(self.mesh):
      reference = update.log_probs(self.reference, prompt, tokens, self.settings)
    return Pairs(prompt, tokens, mask, reference), logs.Host({}, count)

"""Supervised warm-up on a corpus's own good answers (config.method=sft).

Several reference answers of a question share its prompt's prefix, as sampled ones do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from asc_jax import sharding
from asc_jax.models import decoder
from asc_jax.rl import logs, loop, rollouts, update
from asc_jax.text import prompts
from asc_jax.types import Array, Prompts, UserError, Weighted


class References(NamedTuple):
  """A device batch of reference answers."""

  prompts: Prompts
  tokens: Array  # int32[B, G, T], the end-of-turn token included, zeros after it
  mask: Array  # bool[B, G, T]


class Task(NamedTuple):
  """A question with its reference answers, at most `config.sft.answers`, as tokens."""

  question: rollouts.Question
  answers: tuple[tuple[int, ...], ...]


def tasks(
  tokenizer, questions: Sequence[rollouts.Question], end: int, answers: int, max_tokens: int
) -> tuple[list[Task], Counter[str]]:
  """Tokenises the references; one over `max_tokens` is left out, since a cut one has no end.

  Args:
    tokenizer: the policy's.
    questions: prepared; those without references are left out.
    end: the token that ends an answer.
    answers: references a question, its first that fit.
    max_tokens: tokens a reference, its end included.

  Returns:
    The tasks, and counts of what was left out, by reason.
  """
  found, counts = [], Counter[str]()
  for question in questions:
    if not question.example.answers:
      counts["no reference answer"] += 1
      continue
    encoded = [(*prompts.encode_text(tokenizer, text), end) for text in question.example.answers]
    fitting = [tuple(ids) for ids in encoded if len(ids) <= max_tokens]
    counts[f"reference answers over {max_tokens} tokens"] += len(encoded) - len(fitting)
    if fitting:
      found.append(Task(question, tuple(fitting[:answers])))
  return found, +counts


def gradients(
  model: decoder.DecoderState, batch: References, settings: update.Objective
) -> update.Gradients:
  """Cross-entropy, a mean over the reference answers' tokens."""

  def loss(trainable, micro: References):
    logps = update.answer_log_probs(
      model.with_trainable(trainable), micro.prompts, micro.tokens, settings
    )  # [B, G, T]
    total, tokens = -(logps * micro.mask).sum(), micro.mask.sum()
    return total, (tokens, {"loss/nll": Weighted(total, tokens)})

  return update.accumulate(loss, model, batch, settings.micro_batches)


class WarmUp(loop.Loop):
  """Maximum likelihood of reference answers, at temperature 1."""

  def objective(self) -> update.Objective:
    return super().objective()._replace(temperature=1.0)

  def read_training(self) -> loop.Work:
    config = self.config
    work = loop.training_questions(self.tokenizer, config)
    found, counts = tasks(
      self.tokenizer,
      work.questions,
      prompts.end_of_turn(self.tokenizer, self.stop_ids),
      config.sft.answers,
      config.rollout.max_tokens,
    )
    if not found:
      raise UserError(
        f"no question of corpus {config.data.corpus} has a reference answer of at most "
        f"config.rollout.max_tokens={config.rollout.max_tokens} tokens; raise it or choose "
        "another corpus"
      )
    return loop.Work(found, {**work.counts, **counts})

  def gradients(self, model: decoder.DecoderState, batch: References) -> update.Gradients:
    return gradients(model, batch, self.settings)

  def batch(self, items: Sequence[Task], step: int) -> tuple[References, logs.Host]:
    prompt = rollouts.batch_prompts([t.question for t in items], self.config.data.prompt_buckets)
    tokens, mask = rollouts.pad_answers(
      [t.answers for t in items], self.config.sft.answers, self.config.rollout.max_tokens
    )
    host = logs.Host({"data/answers": float(mask.any(-1).sum())}, int(mask.sum()))
    return sharding.spread_questions(References(prompt, tokens, mask), self.mesh), host

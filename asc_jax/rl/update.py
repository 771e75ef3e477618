"""One batch of answers to one optimizer step, in one jitted program.

credit -> advantages -> spread to tokens -> loss over micro-batches -> clip ->
optax. Only sums and a few samples leave the device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from ml_collections import config_dict

from asc_jax import sharding
from asc_jax.models import decoder
from asc_jax.objective import advantages as advantages_lib
from asc_jax.objective import credit as credit_lib
from asc_jax.objective import losses, spread
from asc_jax.types import Batch, Prompts, Rollout, Sample, Scores, Sentences, Weighted


class TrainState(NamedTuple):
  """What an update changes; donated to it."""

  model: decoder.DecoderState
  opt_state: optax.OptState
  step: jax.Array  # int32[], updates applied or skipped
  bad_steps: jax.Array  # int32[], non-finite updates skipped so far


# (loss float32[], gradients like the trainable parameters, metrics)
Gradients: TypeAlias = tuple[jax.Array, Any, dict[str, Any]]


class Objective(NamedTuple):
  """The static settings of an update, read from the config's fields."""

  unit: str
  authored: bool
  vacuous: bool
  supported: bool
  copy_weight: float
  threshold: float
  has_support: bool
  advantage: tuple[tuple[str, Any], ...]
  loss: tuple[tuple[str, Any], ...]
  is_cap: float | None
  temperature: float
  chunk: int
  micro_batches: int


def objective(config: config_dict.ConfigDict) -> Objective:
  """The update's static settings."""
  advantage = {
    "ddof": config.advantage.ddof,
    "eps": config.advantage.eps,
    "scale": None if config.advantage.scale == "none" else config.advantage.scale,
  }
  if config.credit.unit == "answer":
    advantage["baseline"] = config.advantage.baseline
  micro = config.train.micro_batch or config.data.batch_size
  return Objective(
    unit=config.credit.unit,
    authored=config.credit.authored,
    vacuous=config.credit.vacuous,
    supported=config.credit.supported,
    copy_weight=config.credit.copy_weight,
    threshold=config.checker.threshold,
    has_support=config.checker.score_copied,
    advantage=tuple(advantage.items()),
    loss=tuple(config.loss.to_dict().items()),
    is_cap=config.rollout.is_cap,
    temperature=config.rollout.temperature,
    chunk=config.model.logprob_chunk,
    micro_batches=config.data.batch_size // micro,
  )


def make_optimizer(
  config: config_dict.ConfigDict, updates: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """AdamW with warm-up after clipping by the global norm, and its schedule.

  Args:
    config: the section `optimizer`.
    updates: optimizer steps of the whole run, where a decay ends.
  """
  peak, warmup = config.learning_rate, config.warmup_steps
  rest = max(updates - warmup, 1)
  after = {
    "constant": optax.constant_schedule(peak),
    "linear": optax.linear_schedule(peak, 0.0, rest),
    "cosine": optax.cosine_decay_schedule(peak, rest),
  }[config.schedule]
  # The first update has the rate peak / warmup, not 0: no batch is spent in vain.
  ramp = optax.linear_schedule(peak / max(warmup, 1), peak, max(warmup - 1, 1))
  schedule = optax.join_schedules([ramp, after], [warmup]) if warmup else after
  clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
  adamw = optax.adamw(schedule, config.b1, config.b2, config.eps, weight_decay=config.weight_decay)
  return optax.chain(clip, adamw), schedule


def init(
  model: decoder.DecoderState, optimizer: optax.GradientTransformation, mesh: jax.sharding.Mesh
) -> TrainState:
  """A fresh TrainState; Adam's moments lie where their parameters do."""
  shapes = jax.eval_shape(optimizer.init, model.trainable())
  place = sharding.specs(shapes, mesh)
  opt_state = jax.jit(optimizer.init, out_shardings=place)(model.trainable())
  counters = sharding.shard((jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)), mesh)
  return TrainState(model, opt_state, *counters)


def credits(
  sentences: Sentences, scores: Scores, settings: Objective
) -> tuple[jax.Array, jax.Array]:
  """Each sentence's credit under the tests that are on, and its support.

  A sentence that the token limit cut off, and the pseudo-sentence of an empty
  answer, earn nothing whatever the tests say.

  Returns:
    float32[B, G, S] credit and float32[B, G, S] support, both 0 on padding.
  """
  real = (sentences.mask & sentences.complete & ~sentences.pseudo).astype(jnp.float32)
  supported = (scores.supported > settings.threshold) * real  # NaN compares False
  off = jnp.zeros_like(supported)
  credit = credit_lib.authored_credit(
    copied=sentences.copied.astype(jnp.float32) if settings.authored else off,
    vacuous=(scores.vacuous > settings.threshold).astype(jnp.float32) if settings.vacuous else off,
    supported=supported if settings.supported else real,
    mask=sentences.mask,
  )
  return credit, supported


def scored(sentences: Sentences, scores: Scores, settings: Objective) -> Sentences:
  """`sentences` without those that a test which is on could not score.

  A failed score (NaN) is no verdict: such a sentence neither earns nor lowers the
  mean that the others are compared with. Copied sentences need no score where
  being copied decides already.
  """
  failed = jnp.zeros_like(sentences.mask)
  for on, score in (
    (settings.supported, scores.supported),
    (settings.vacuous, scores.vacuous),
  ):
    failed |= jnp.isnan(score) & on
  decided = sentences.pseudo | (sentences.copied & settings.authored)
  return sentences._replace(mask=sentences.mask & (decided | ~failed))


def unit_advantages(
  sentences: Sentences, credit: jax.Array, settings: Objective
) -> tuple[jax.Array, jax.Array]:
  """Advantages of sentences, float32[B, G, S], and of tokens, float32[B, G, T].

  Where answers are rewarded (by their mean credit, less the copy penalty), each of
  an answer's tokens has its advantage, those of no sentence included, as in GRPO.
  """
  mask, options = sentences.mask, dict(settings.advantage)
  if settings.unit == "sentence":
    values = advantages_lib.sentence_advantages(credit, mask, **options)
    return values, spread.spread(values, sentences.ids)
  rewards = credit_lib.support_share(credit, mask)  # [B, G]
  rewards = credit_lib.copy_penalised(rewards, sentences.copy_share, settings.copy_weight)
  values = advantages_lib.answer_advantages(rewards, **options)[:, :, None]  # [B, G, 1]
  return values * mask, jnp.broadcast_to(values, sentences.ids.shape)


def rollout_metrics(rollout: Rollout, advantages: jax.Array) -> dict[str, Weighted | Sample]:
  """What sampled answers and their tokens' advantages, float32[B, G, T], show of any method."""
  nonzero = jnp.any(advantages != 0, axis=(1, 2))
  answers = jnp.float32(rollout.finished.size)
  return {
    "advantage/nonzero_groups": Weighted(nonzero.sum(), jnp.float32(nonzero.size)),
    "rollout/tokens": Weighted(rollout.lengths.sum(), answers),
    "rollout/truncated": Weighted((~rollout.finished).sum(), answers),
    "rollout/length": Sample(rollout.lengths, jnp.ones_like(rollout.finished)),
  }


def token_advantages(
  batch: Batch, settings: Objective
) -> tuple[jax.Array, dict[str, Weighted | Sample]]:
  """Every token's advantage, float32[B, G, T], and the rewards' metrics."""
  sentences = scored(batch.sentences, batch.scores, settings)
  credit, supported = credits(sentences, batch.scores, settings)
  values, advantages = unit_advantages(sentences, credit, settings)
  counted = (sentences.mask & ~sentences.pseudo).sum()
  answers = jnp.float32(sentences.copy_share.size)
  copied = sentences.copied & sentences.mask & ~sentences.pseudo
  metrics = rollout_metrics(batch.rollout, advantages) | {
    "reward/credit": Weighted(credit.sum(), counted),
    "text/copy": Weighted(sentences.copy_share.sum(), answers),
    "text/copied_sentences": Weighted(copied.sum(), counted),
    "text/sentences": Weighted(counted, answers),
    "reward/unscored": Weighted((batch.sentences.mask & ~sentences.mask).sum(), answers),
    "advantage/sentence": Sample(values, sentences.mask),
  }
  if settings.has_support:
    shares = credit_lib.support_share(supported, sentences.mask)
    metrics["reward/R"] = Weighted(shares.sum(), answers)
  return advantages, metrics


def _micro_batches(tree, count: int):
  """[B, ...] -> [count, B / count, ...], every part spread over all devices."""
  return jax.tree.map(
    lambda x: x.reshape(x.shape[0] // count, count, *x.shape[1:]).swapaxes(0, 1), tree
  )


def answer_log_probs(
  state: decoder.DecoderState, prompts: Prompts, answers: jax.Array, settings: Objective
) -> jax.Array:
  """float32[B, G, T] at the settings' temperature; see models/decoder.py."""
  return decoder.answer_log_probs(
    state,
    prompts.tokens,
    prompts.lengths,
    answers,
    temperature=settings.temperature,
    chunk=settings.chunk,
  )


@functools.partial(jax.jit, static_argnames="settings")
def log_probs(
  state: decoder.DecoderState, prompts: Prompts, answers: jax.Array, settings: Objective
) -> jax.Array:
  """The answers' log-probabilities, a micro-batch at a time.

  For the reference, and for the policy before several updates a batch.

  Args:
    state: the model that is asked.
    prompts: of B questions.
    answers: int32[B, G, T].
    settings: its temperature, chunk and number of micro-batches.

  Returns:
    float32[B, G, T].
  """
  if settings.micro_batches == 1:
    return answer_log_probs(state, prompts, answers, settings)
  parts = jax.lax.map(
    lambda part: answer_log_probs(state, part[0], part[1], settings),
    _micro_batches((prompts, answers), settings.micro_batches),
  )  # [M, B / M, G, T]
  return parts.swapaxes(0, 1).reshape(answers.shape)


def _loss(trainable, model, batch: Batch, advantages, settings: Objective):
  """Sums over a micro-batch: (loss sum, (denominator, metrics))."""
  logps = answer_log_probs(
    model.with_trainable(trainable), batch.prompts, batch.rollout.tokens, settings
  )  # [B, G, T]
  if settings.is_cap is not None:
    weight = jnp.exp(jax.lax.stop_gradient(logps) - batch.rollout.logps)
    advantages = advantages * jnp.minimum(weight, settings.is_cap)
  total, denominator, metrics = losses.grpo_loss(
    logps,
    batch.old_logps,
    batch.ref_logps,
    advantages,
    batch.token_mask,
    **dict(settings.loss),
  )
  gap = jnp.abs(jax.lax.stop_gradient(logps) - batch.rollout.logps) * batch.token_mask
  metrics = {f"loss/{k}": v for k, v in metrics.items()}
  metrics["rollout/logp_gap"] = Weighted(gap.sum(), batch.token_mask.sum())
  return total, (denominator, metrics)


def gradients(model: decoder.DecoderState, batch: Batch, settings: Objective) -> Gradients:
  """Loss, gradients and metrics of a batch of scored answers."""
  advantages, metrics = token_advantages(batch, settings)
  loss, grads, more = surrogate(model, batch, advantages, settings)
  return loss, grads, metrics | more


def surrogate(
  model: decoder.DecoderState, batch: Any, advantages: jax.Array, settings: Objective
) -> Gradients:
  """`gradients` of any batch of sampled answers whose tokens' advantages are known.

  Args:
    model: the policy.
    batch: with prompts, rollout, token_mask, old_logps and ref_logps of `Batch`.
    advantages: float32[B, G, T].
    settings: of the loss.
  """

  def loss(trainable, micro):
    return _loss(trainable, model, *micro, settings)

  return accumulate(loss, model, (batch, advantages), settings.micro_batches)


def accumulate(
  loss: Callable[[Any, Any], tuple[jax.Array, tuple[jax.Array, dict[str, Weighted]]]],
  model: decoder.DecoderState,
  batch: Any,
  micro_batches: int,
) -> Gradients:
  """Gradients of a ratio of sums over a batch; micro-batches add up exactly.

  Args:
    loss: `(trainable, micro-batch) -> (sum, (denominator, metrics))`.
    model: its trainable parameters are differentiated.
    batch: a tree of [B, ...] arrays.
    micro_batches: parts that B is cut into, each with its own backward pass.
  """
  value_and_grad = jax.value_and_grad(loss, has_aux=True)

  def part(micro):
    return value_and_grad(model.trainable(), micro)

  if micro_batches == 1:
    (total, (denominator, metrics)), grads = part(batch)
  else:
    micro = _micro_batches(batch, micro_batches)
    zeros = jax.tree.map(
      lambda x: jnp.zeros(x.shape, x.dtype),
      jax.eval_shape(part, jax.tree.map(lambda x: x[0], micro)),
    )
    (((total, (denominator, metrics)), grads), _) = jax.lax.scan(
      lambda sums, one: (jax.tree.map(jnp.add, sums, part(one)), None), zeros, micro
    )
  denominator = jnp.maximum(denominator, 1)
  grads = jax.tree.map(lambda g: g / denominator, grads)
  mean = total / denominator
  return mean, grads, metrics | {"loss/total": Weighted(mean, jnp.float32(1))}


def make_update(
  optimizer: optax.GradientTransformation,
  schedule: optax.Schedule,
  gradients: Callable[[decoder.DecoderState, Any], Gradients],
) -> jax.stages.Wrapped:
  """The jitted update `(TrainState, batch) -> (TrainState, metrics)`.

  A non-finite loss or gradient leaves parameters and moments as they were and
  is counted in `bad_steps`.
  """

  def update(train: TrainState, batch: Any):
    loss, grads, metrics = gradients(train.model, batch)
    norm = optax.tree.norm(grads)
    good = jnp.isfinite(loss) & jnp.isfinite(norm)
    old = train.model.trainable()
    updates, opt_state = optimizer.update(grads, train.opt_state, old)
    trainable, opt_state = jax.tree.map(
      functools.partial(jnp.where, good),
      (optax.apply_updates(old, updates), opt_state),
      (old, train.opt_state),
    )
    metrics["gradient/norm"] = Weighted(norm, jnp.float32(1))
    metrics["optimizer/learning_rate"] = Weighted(
      schedule(train.step - train.bad_steps), jnp.float32(1)
    )
    metrics["optimizer/skipped"] = Weighted((~good).astype(jnp.float32), jnp.float32(1))
    model = train.model.with_trainable(trainable)
    return TrainState(model, opt_state, train.step + 1, train.bad_steps + ~good), metrics

  return jax.jit(update, donate_argnums=0)

"""Sampling answers: one prefill a question, then a jitted loop over tokens.

The prompt's keys and values are read by all G answers and never copied. Random
keys belong to a (question, answer) pair, so that a question draws the same
answers whatever else is in its batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import config_dict

from asc_jax import sharding
from asc_jax.models import decoder
from asc_jax.rl import rollouts
from asc_jax.types import Array, Prompts, Rollout


class Starts(NamedTuple):
  """How answers must begin; what is drawn follows."""

  tokens: Array  # int32[B, G, R], right-padded
  lengths: Array  # int32[B, G]


class Sampling(NamedTuple):
  """Static settings of the loop; temperature 0 is greedy."""

  group_size: int
  max_tokens: int
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  stop_ids: tuple[int, ...] = ()


def from_config(config: config_dict.ConfigDict, stop_ids: tuple[int, ...]) -> Sampling:
  """The settings of the config's section `rollout`."""
  return Sampling(
    group_size=config.group_size,
    max_tokens=config.max_tokens,
    temperature=config.temperature,
    top_k=config.top_k,
    top_p=config.top_p,
    stop_ids=stop_ids,
  )


def truncate(logits: jax.Array, top_k: int, top_p: float) -> jax.Array:
  """Sets logits outside the top k, then outside the top-p nucleus, to -inf.

  The nucleus is the smallest set of likeliest tokens that holds at least `top_p`
  (Holtzman et al., 2020), so the likeliest token always stays.

  Args:
    logits: float32[..., V].
    top_k: tokens kept; 0 keeps all.
    top_p: probability kept, in (0, 1].

  Returns:
    float32[..., V].
  """
  if 0 < top_k < logits.shape[-1]:
    kth = jax.lax.top_k(logits, top_k)[0][..., -1:]
    logits = jnp.where(logits < kth, -jnp.inf, logits)
  if top_p < 1:
    descending = -jnp.sort(-logits, axis=-1)
    probabilities = jax.nn.softmax(descending, axis=-1)
    before = jnp.cumsum(probabilities, axis=-1) - probabilities
    last = jnp.min(jnp.where(before < top_p, descending, jnp.inf), axis=-1, keepdims=True)
    logits = jnp.where(logits < last, -jnp.inf, logits)
  return logits


def answer_keys(key: jax.Array, questions: jax.Array, group_size: int) -> jax.Array:
  """One key per (question, answer): key[B, G] from uint32[B] question hashes."""
  per_question = jax.vmap(jax.random.fold_in, (None, 0))(key, questions)
  fold_answers = jax.vmap(jax.random.fold_in, (None, 0))
  return jax.vmap(fold_answers, (0, None))(per_question, jnp.arange(group_size))


def draw(logits: jax.Array, keys: jax.Array, settings: Sampling) -> tuple[jax.Array, jax.Array]:
  """Draws a token and gives its untruncated log-probability.

  Args:
    logits: float32[B, G, V].
    keys: key[B, G].
    settings: temperature, top_k, top_p. Greedy log-probabilities are those at
      temperature 1.

  Returns:
    int32[B, G] tokens and float32[B, G] log-probabilities.
  """
  scaled = logits / (settings.temperature or 1.0)  # [B, G, V]
  if settings.temperature == 0:
    token = jnp.argmax(scaled, axis=-1)
  else:
    kept = truncate(scaled, settings.top_k, settings.top_p)
    token = jax.vmap(jax.vmap(jax.random.categorical))(keys, kept)
  logp = jnp.take_along_axis(scaled, token[..., None], axis=-1)[..., 0]
  return token.astype(jnp.int32), logp - jax.nn.logsumexp(scaled, axis=-1)


@functools.partial(jax.jit, static_argnames="settings")
def sample(
  state: decoder.DecoderState, prompts: Prompts, key: jax.Array, settings: Sampling
) -> Rollout:
  """Samples G answers to each question; stops when all have ended.

  Args:
    state: the policy.
    prompts: B tokenised questions.
    key: the step's key.
    settings: static; each value compiles once.

  Returns:
    Rollout with tokens int32[B, G, T], zero after the end-of-answer token, which
    counts in `lengths`.
  """
  prefix = decoder.prefill(state, prompts.tokens, prompts.lengths)
  return sample_after(state, prefix, prompts, key, settings)


@functools.partial(jax.jit, static_argnames="settings")
def sample_after(
  state: decoder.DecoderState,
  prefix: decoder.Prefix,
  prompts: Prompts,
  key: jax.Array,
  settings: Sampling,
  starts: Starts | None = None,
) -> Rollout:
  """`sample` where the prompts are prefilled already, and answers may be begun.

  Args:
    state: the policy.
    prefix: of the prompts.
    prompts: B tokenised questions.
    key: the step's key.
    settings: static; `max_tokens` includes what is given.
    starts: the first tokens of each answer; they end it in no case.

  Returns:
    As `sample`; the answers hold their starts.
  """
  questions, shape = prompts.tokens.shape[0], (prompts.tokens.shape[0], settings.group_size)
  keys = answer_keys(key, prompts.keys, settings.group_size)  # [B, G]
  cache = decoder.init_cache(state, prefix, settings.group_size, settings.max_tokens)
  last = prompts.tokens[jnp.arange(questions), prompts.lengths - 1]  # [B]
  stops = jnp.asarray(settings.stop_ids or (-1,), jnp.int32)

  def unfinished(carry):
    t, _, _, _, finished, _, _ = carry
    return (t < settings.max_tokens) & ~jnp.all(finished)

  def step(carry):
    t, tokens, logps, lengths, finished, previous, cache = carry
    hidden, cache = decoder.extend(state, prefix, previous[..., None], t, cache)
    logits = decoder.logits(state, hidden[:, :, 0])  # [B, G, V]
    step_keys = jax.vmap(jax.vmap(jax.random.fold_in, (0, None)), (0, None))(keys, t)
    token, logp = draw(logits, step_keys, settings)
    ends = jnp.isin(token, stops)
    if starts is not None:
      given = t < starts.lengths  # [B, G]
      place = jnp.minimum(t, starts.tokens.shape[2] - 1)
      token = jnp.where(given, starts.tokens[:, :, place], token)
      logp, ends = jnp.where(given, 0.0, logp), ends & ~given
    token, logp = jnp.where(finished, 0, token), jnp.where(finished, 0.0, logp)
    tokens = jax.lax.dynamic_update_index_in_dim(tokens, token, t, axis=2)
    logps = jax.lax.dynamic_update_index_in_dim(logps, logp, t, axis=2)
    lengths = lengths + ~finished
    return t + 1, tokens, logps, lengths, finished | ends, token, cache

  carry = (
    jnp.int32(0),
    jnp.zeros((*shape, settings.max_tokens), jnp.int32),
    jnp.zeros((*shape, settings.max_tokens), jnp.float32),
    jnp.zeros(shape, jnp.int32),
    jnp.zeros(shape, bool),
    jnp.broadcast_to(last[:, None], shape),
    cache,
  )
  _, tokens, logps, lengths, finished, _, _ = jax.lax.while_loop(unfinished, step, carry)
  return Rollout(tokens, lengths, logps, finished)


def sample_questions(
  state: decoder.DecoderState,
  questions: Sequence[rollouts.Question],
  key: jax.Array,
  settings: Sampling,
  *,
  data: config_dict.ConfigDict,
  mesh: jax.sharding.Mesh,
) -> Rollout:
  """Samples answers to one batch of questions, the last of which may not fill it.

  Args:
    state: the policy, on `mesh`.
    questions: N, at most `data.batch_size`.
    key: see `answer_keys`.
    settings: static.
    data: the config's section, for batch_size and prompt_buckets.
    mesh: over which the questions are spread.

  Returns:
    Rollout of NumPy arrays [N, G, ...].
  """
  missing = data.batch_size - len(questions)
  filled = [*questions, *[questions[-1]] * missing]  # every batch has one shape
  prompt = sharding.spread_questions(rollouts.batch_prompts(filled, data.prompt_buckets), mesh)
  with jax.set_mesh(mesh):
    drawn = sample(state, prompt, key, settings)
  return Rollout(*(np.asarray(x)[: len(questions)] for x in drawn))

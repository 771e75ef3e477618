"""Gated DeltaNet: chunks against single tokens against torch, and padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

from asc_jax.models import delta_net

BATCH, HEADS, KEY, VALUE = 3, 2, 16, 5


def inputs(length, seed=0):
  """q, k of unit length, v, g <= 0, 0 < beta < 1 and a state that is not zero."""
  rng = np.random.default_rng(seed)
  q, k = rng.normal(size=(2, BATCH, HEADS, length, KEY))
  k /= np.linalg.norm(k, axis=-1, keepdims=True)
  q /= np.linalg.norm(q, axis=-1, keepdims=True)
  v = rng.normal(size=(BATCH, HEADS, length, VALUE))
  g = -rng.exponential(0.3, size=(BATCH, HEADS, length))
  beta = rng.uniform(size=(BATCH, HEADS, length))
  state = rng.normal(size=(BATCH, HEADS, KEY, VALUE))
  return [jnp.asarray(x, jnp.float32) for x in (q, k, v, g, beta, state)]


def one_by_one(q, k, v, g, beta, state):
  outputs = []
  for t in range(q.shape[2]):
    o, state = delta_net.recurrent(
      q[:, :, t], k[:, :, t], v[:, :, t], g[:, :, t], beta[:, :, t], state
    )
    outputs.append(o)
  return jnp.stack(outputs, axis=2), state


@pytest.mark.parametrize(("length", "chunk"), [(7, 4), (8, 4), (3, 64), (70, 64), (130, 64)])
def test_chunks_equal_single_tokens(length, chunk):
  *tokens, state = inputs(length)
  expected, last = one_by_one(*tokens, state)
  got, end = delta_net.chunked(*tokens, state, chunk)
  np.testing.assert_allclose(got, expected, atol=2e-5)
  np.testing.assert_allclose(end, last, atol=2e-5)


def test_single_tokens_equal_the_rule_of_transformers():
  q, k, v, g, beta, state = inputs(9)
  got, last = one_by_one(q * KEY**-0.5, k, v, g, beta, state)
  tokens = [torch.from_numpy(np.array(x)).transpose(1, 2) for x in (q, k, v, g, beta)]
  expected, end = torch_recurrent_gated_delta_rule(
    *tokens, initial_state=torch.from_numpy(np.array(state)), output_final_state=True
  )
  np.testing.assert_allclose(got, expected.transpose(1, 2).numpy(), atol=1e-5)
  np.testing.assert_allclose(last, end.numpy(), atol=1e-5)


def test_gradients_of_chunks_equal_those_of_single_tokens():
  *tokens, state = inputs(11)
  weights = jnp.asarray(np.random.default_rng(1).normal(size=(BATCH, HEADS, 11, VALUE)), "float32")

  def loss(rule, args):
    o, last = rule(*args)
    return jnp.sum(o * weights) + jnp.sum(last**2)

  args = (*tokens, state)
  expected = jax.jit(jax.grad(lambda a: loss(one_by_one, a)))(args)
  got = jax.jit(jax.grad(lambda a: loss(lambda *x: delta_net.chunked(*x, 4), a)))(args)
  for a, b in zip(got, expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-4 * float(jnp.abs(b).max()))


def test_a_strong_decay_neither_overflows_nor_loses_gradients():
  *tokens, state = inputs(10)
  tokens[3] = tokens[3] * 0 - 60.0  # e^(c_i - c_j) above the diagonal would overflow
  value, gradient = jax.value_and_grad(
    lambda g: jnp.sum(delta_net.chunked(*tokens[:3], g, tokens[4], state, 10)[0])
  )(tokens[3])
  assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.fixture(scope="module")
def layer():
  config = delta_net.DeltaConfig(key_heads=2, value_heads=4, key_dim=16, value_dim=6)
  layer = delta_net.DeltaNet(12, config, eps=1e-6, lora=None, rngs=nnx.Rngs(0))
  layer.a_log[...] = jnp.asarray([-1.0, 0.0, 0.5, 1.0])
  return layer


LENGTHS = np.array([9, 1, 4])
prefill = nnx.jit(delta_net.DeltaNet.prefill)
extend = nnx.jit(delta_net.DeltaNet.__call__)


def test_padding_on_the_right_leaves_state_and_window_alone(layer):
  x = jax.random.normal(jax.random.key(0), (3, 1, 11, 12))
  _, state = prefill(layer, x, jnp.asarray(LENGTHS))
  changed = x.at[:, :, 9:].set(50.0).at[2, :, 4:].set(-3.0).at[1, :, 1:].set(7.0)
  _, again = prefill(layer, changed, jnp.asarray(LENGTHS))
  jax.tree.map(np.testing.assert_array_equal, state, again)
  for b in (0, 2):
    length = LENGTHS[b]
    _, alone = prefill(layer, x[b : b + 1, :, :length], jnp.asarray([length]))
    for got, exact in zip(state, alone, strict=True):
      np.testing.assert_allclose(got[b], exact[0], atol=1e-5)
  assert np.abs(state.memory).max() > 0.1 and np.abs(state.conv[1, -1]).max() > 0.1
  assert np.abs(state.conv[1, :-1]).max() == 0  # before a prompt of one token: nothing


def test_padding_on_the_left_is_harmless(layer):
  x = jax.random.normal(jax.random.key(1), (3, 1, 6, 12))
  _, expected = prefill(layer, x, jnp.full(3, 6))
  padded = jnp.concatenate([jnp.zeros((3, 1, 5, 12)), x], axis=2)
  _, got = prefill(layer, padded, jnp.full(3, 11))
  np.testing.assert_allclose(got.memory, expected.memory, atol=1e-6)
  np.testing.assert_array_equal(got.conv, expected.conv)


def test_the_answers_start_from_the_prompts_state_and_do_not_see_each_other(layer):
  x = jax.random.normal(jax.random.key(2), (3, 1, 9, 12))
  y = jax.random.normal(jax.random.key(3), (3, 2, 5, 12))
  _, state = prefill(layer, x, jnp.asarray(LENGTHS))
  spread = jax.tree.map(lambda s: jnp.stack([s, s], axis=1), state)
  got, _ = extend(layer, y, spread)
  rows = np.zeros((6, 1, 14, 12), np.float32)  # each prompt with each of its answers
  for b, length in enumerate(LENGTHS):
    for g in range(2):
      rows[2 * b + g, 0, : length + 5] = np.concatenate([x[b, 0, :length], y[b, g]])
  whole, _ = prefill(layer, jnp.asarray(rows), jnp.full(6, 14))
  for b, length in enumerate(LENGTHS):
    for g in range(2):
      expected = whole[2 * b + g, 0, length : length + 5]
      np.testing.assert_allclose(got[b, g], expected, atol=1e-5)

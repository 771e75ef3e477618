"""Qwen3.5 and Gemma 4 on eight devices: loss, gradients and log-probabilities of one."""

import dataclasses

import hf_reference as hf
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax import sharding
from asc_jax.models import decoder, families

B, G, P, T = 4, 3, 9, 5
LENGTHS = np.array([5, 9, 2, 7], np.int32)


def tiny(family):
  """Random weights; one layer of each kind, twice."""
  config = families.parse(hf.CONFIGS[family]().to_dict(), family)
  config = dataclasses.replace(config, group=config.group[-2:], num_layers=4)
  state = decoder.init(config, jax.random.key(0))
  keys = iter(jax.random.split(jax.random.key(1), 200))
  return state.with_trainable(
    jax.tree.map(lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), state.params)
  )


@jax.jit
def step(state, tokens, lengths, answers, weights):
  def loss(params):
    model = state.with_trainable(params)
    logps = decoder.answer_log_probs(model, tokens, lengths, answers, temperature=0.7, chunk=12)
    return jnp.sum(logps * weights), logps

  return jax.value_and_grad(loss, has_aux=True)(state.params)


@pytest.mark.parametrize("family", ["qwen3_5", "gemma4"])
def test_eight_devices_give_the_loss_and_gradients_of_one(family):
  state = tiny(family)
  kinds = {type(kind).__name__ + str(getattr(kind, "window", "")) for kind in state.config.group}
  assert len(kinds) == 2
  rng = np.random.default_rng(0)
  tokens = rng.integers(3, hf.VOCAB, (B, P)).astype(np.int32)
  answers = rng.integers(3, hf.VOCAB, (B, G, T)).astype(np.int32)
  batch = (tokens, LENGTHS, answers, rng.normal(size=answers.shape).astype(np.float32))
  (one_loss, one_logps), one = step(state, *batch)
  mesh = sharding.make_mesh(2, 2, 2)
  with jax.set_mesh(mesh):
    placed = sharding.shard(state, mesh)
    (loss, logps), grads = step(placed, *jax.device_put(batch, sharding.batch_spec(mesh)))
  kernel = placed.params["blocks"]["layer_1"]["mlp"]["up_proj"]["kernel"]
  assert kernel.addressable_shards[0].data.size == kernel.size // 4
  np.testing.assert_allclose(loss, one_loss, rtol=1e-5)
  np.testing.assert_allclose(logps, one_logps, atol=1e-4, rtol=0)
  got = dict(jax.tree_util.tree_leaves_with_path(grads))
  for path, wanted in jax.tree_util.tree_leaves_with_path(one):
    error = np.linalg.norm(got[path] - wanted) / max(np.linalg.norm(wanted), 1e-9)
    assert error <= 1e-5, f"{sharding.path_name(path)} differs by {error}"

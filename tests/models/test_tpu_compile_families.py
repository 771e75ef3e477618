"""Update and decoding of every family compile for a slice of eight v5p chips."""

import dataclasses

import hf_reference as hf
import jax
import jax.numpy as jnp
import pytest

from asc_jax import sharding
from asc_jax.models import decoder, families

pytestmark = pytest.mark.tpu_compile

B, G, P, T = 4, 2, 128, 64


def abstract(family, mesh):
  config = families.parse(hf.CONFIGS[family]().to_dict(), family, dtype="bfloat16")
  # One layer of each kind compiles as several do.
  group = tuple(dict.fromkeys(config.group))
  config = dataclasses.replace(config, group=group, num_layers=2 * len(group))
  state = decoder.DecoderState(families.abstract(config), None, config)
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    state,
    sharding.specs(state, mesh),
  )


def ints(mesh, *shape):
  return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding.batch_spec(mesh))


# InternLM2 is a Llama under other names (test_internlm2.py).
@pytest.mark.parametrize("family", list(hf.CONFIGS))
def test_update_and_decoding(tpu_mesh, family):
  state = abstract(family, tpu_mesh)
  tokens, lengths = ints(tpu_mesh, B, P), ints(tpu_mesh, B)

  def loss(params, tokens, lengths, answers):
    logps = decoder.answer_log_probs(
      state.with_trainable(params), tokens, lengths, answers, temperature=0.7, chunk=64
    )
    return logps.sum()

  def decode(params, tokens, lengths, token):
    model = state.with_trainable(params)
    prefix = decoder.prefill(model, tokens, lengths)
    cache = decoder.init_cache(model, prefix, G, T)

    def step(t, carry):
      token, cache = carry
      hidden, cache = decoder.extend(model, prefix, token, t, cache)
      return jnp.argmax(decoder.logits(model, hidden), axis=-1).astype(jnp.int32), cache

    return jax.lax.fori_loop(0, T, step, (token, cache))[0]

  with jax.set_mesh(tpu_mesh):
    update = jax.jit(jax.grad(loss)).lower(state.params, tokens, lengths, ints(tpu_mesh, B, G, T))
    assert update.compile().memory_analysis().temp_size_in_bytes > 0
    sample = jax.jit(decode).lower(state.params, tokens, lengths, ints(tpu_mesh, B, G, 1))
    assert sample.compile().memory_analysis().temp_size_in_bytes > 0

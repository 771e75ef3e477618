"""The decoder's programs compile for a slice of eight v5p chips, with none at hand."""

import jax
import jax.numpy as jnp
import pytest

from asc_jax import sharding
from asc_jax.models import decoder, lora
from asc_jax.models.layers import AttentionConfig

pytestmark = pytest.mark.tpu_compile

B, G, P, T = 4, 2, 128, 64
CONFIG = decoder.DecoderConfig(
  "llama", 512, 256, 512, 2, (AttentionConfig(4, 2, 64),), dtype="bfloat16"
)


def abstract(mesh, lora_config=None):
  """A tiny decoder's shapes, each with its place on the mesh."""
  state = jax.eval_shape(lambda: decoder.init(CONFIG, jax.random.key(0), lora_config))
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    state,
    sharding.specs(state, mesh),
  )


def ints(mesh, *shape):
  return jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding.batch_spec(mesh))


@pytest.mark.parametrize("lora_config", [None, lora.LoraConfig(rank=8)], ids=["full", "lora"])
def test_gradient_of_answer_log_probs(tpu_mesh, lora_config):
  state = abstract(tpu_mesh, lora_config)

  @jax.jit
  def gradient(state, tokens, lengths, answers):
    def loss(tree):
      return decoder.answer_log_probs(
        state.with_trainable(tree), tokens, lengths, answers, temperature=0.7, chunk=64
      ).sum()

    return jax.grad(loss)(state.trainable())

  with jax.set_mesh(tpu_mesh):
    lowered = gradient.lower(
      state, ints(tpu_mesh, B, P), ints(tpu_mesh, B), ints(tpu_mesh, B, G, T)
    )
    compiled = lowered.compile()
  assert "splash" in lowered.as_text(), "the update uses the TPU's kernel"
  assert compiled.memory_analysis().temp_size_in_bytes > 0
  wanted = {
    sharding.path_name(path): x.sharding.shard_shape(x.shape)
    for path, x in jax.tree_util.tree_leaves_with_path(state.trainable())
  }
  got = jax.tree.map(
    lambda x, place: place.shard_shape(x.shape), state.trainable(), compiled.output_shardings
  )
  leaves = jax.tree_util.tree_leaves_with_path(got, is_leaf=lambda x: isinstance(x, tuple))
  assert {sharding.path_name(path): shape for path, shape in leaves} == wanted

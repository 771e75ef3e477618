"""Sampling, the reference and the whole update compile for a slice of eight v5p chips."""

import functools

import jax
import jax.numpy as jnp
import pytest

from asc_jax import config as config_lib
from asc_jax import sharding
from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig
from asc_jax.rl import sampler, update
from asc_jax.types import Batch, Prompts, Rollout, Scores, Sentences

pytestmark = pytest.mark.tpu_compile

B, G, P, T, S = 8, 2, 128, 64, 4
CONFIG = decoder.DecoderConfig(
  "llama", 512, 256, 512, 2, (AttentionConfig(4, 2, 64),), dtype="bfloat16"
)


def placed(tree, place):
  return jax.tree.map(lambda x, p: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=p), tree, place)


def batch_shapes(mesh) -> Batch:
  place = sharding.batch_spec(mesh)

  def of(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)

  i, f, b = (functools.partial(of, d) for d in (jnp.int32, jnp.float32, jnp.bool_))
  return Batch(
    Prompts(i(B, P), i(B), of(jnp.uint32, B)),
    Rollout(i(B, G, T), i(B, G), f(B, G, T), b(B, G)),
    b(B, G, T),
    Sentences(i(B, G, T), b(B, G, S), b(B, G, S), b(B, G, S), b(B, G, S), f(B, G)),
    Scores(f(B, G, S), f(B, G, S)),
    None,
    f(B, G, T),
  )


@pytest.fixture(scope="module")
def model(tpu_mesh):
  state = jax.eval_shape(lambda: decoder.init(CONFIG, jax.random.key(0)))
  return placed(state, sharding.specs(state, tpu_mesh))


def test_sample(tpu_mesh, model):
  settings = sampler.Sampling(G, T, temperature=0.7, top_k=50, top_p=0.9, stop_ids=(2,))
  key = jax.eval_shape(lambda: jax.random.key(0))
  with jax.set_mesh(tpu_mesh):
    lowered = sampler.sample.lower(model, batch_shapes(tpu_mesh).prompts, key, settings)
    assert lowered.compile().memory_analysis().temp_size_in_bytes > 0


@pytest.mark.parametrize("micro_batch", [None, 4])
def test_reference_and_update(tpu_mesh, model, micro_batch):
  config = config_lib.default_config()
  config.data.batch_size = B
  config.train.micro_batch = micro_batch
  settings = update.objective(config)
  batch = batch_shapes(tpu_mesh)
  optimizer, schedule = update.make_optimizer(config.optimizer, 10)
  moments = jax.eval_shape(optimizer.init, model.trainable())
  counter = jax.ShapeDtypeStruct((), jnp.int32)
  train = update.TrainState(
    model, placed(moments, sharding.specs(moments, tpu_mesh)), counter, counter
  )
  with jax.set_mesh(tpu_mesh):
    reference = update.log_probs.lower(
      model, batch.prompts, batch.rollout.tokens, settings
    ).compile()
    assert reference.memory_analysis().temp_size_in_bytes > 0
    lowered = update.make_update(
      optimizer, schedule, functools.partial(update.gradients, settings=settings)
    ).lower(train, batch)
    compiled = lowered.compile()
  assert "splash" in lowered.as_text(), "the update uses the TPU's kernel"
  # Parameters and moments come back where they were, so that donation can reuse them.
  for wanted, place in zip(
    jax.tree.leaves(train.opt_state),
    jax.tree.leaves(compiled.output_shardings[0].opt_state),
    strict=True,
  ):
    if wanted.shape:
      assert wanted.sharding.shard_shape(wanted.shape) == place.shard_shape(wanted.shape)
  assert compiled.memory_analysis().alias_size_in_bytes > 0

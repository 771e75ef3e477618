"""The programs of a training step, lowered for a mesh of TPUs from shapes alone."""

import functools

import jax
import jax.numpy as jnp

from asc_jax import config as config_lib
from asc_jax import sharding
from asc_jax.models import decoder, families
from asc_jax.rl import sampler, update
from asc_jax.types import Batch, Prompts, Rollout, Scores, Sentences

B, G, P, T, S = 8, 2, 128, 64, 4


def placed(tree, mesh):
  """Shapes of a tree, each with its place by the rules."""
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    tree,
    sharding.specs(tree, mesh),
  )


def model_shapes(config, mesh):
  """A decoder without arrays."""
  return placed(decoder.DecoderState(families.abstract(config), None, config), mesh)


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


def lower_sampler(model, mesh):
  """`sampler.sample` with all that it can do."""
  settings = sampler.Sampling(G, T, temperature=0.7, top_k=50, top_p=0.9, stop_ids=(2,))
  key = jax.eval_shape(lambda: jax.random.key(0))
  with jax.set_mesh(mesh):
    return sampler.sample.lower(model, batch_shapes(mesh).prompts, key, settings)


def objective(micro_batch=None) -> update.Objective:
  config = config_lib.default_config()
  config.data.batch_size = B
  config.train.micro_batch = micro_batch
  return update.objective(config)


def lower_update(model, mesh, settings):
  """The whole update, and the shapes of the state that is donated to it."""
  optimizer, schedule = update.make_optimizer(config_lib.default_config().optimizer, 10)
  moments = placed(jax.eval_shape(optimizer.init, model.trainable()), mesh)
  counter = jax.ShapeDtypeStruct((), jnp.int32)
  train = update.TrainState(model, moments, counter, counter)
  gradients = functools.partial(update.gradients, settings=settings)
  with jax.set_mesh(mesh):
    lowered = update.make_update(optimizer, schedule, gradients).lower(train, batch_shapes(mesh))
  return lowered, train

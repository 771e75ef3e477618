"""Sampling, the reference and the whole update compile for a slice of eight v5p chips."""

import jax
import pytest
import tpu_programs

from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig
from asc_jax.rl import update

pytestmark = pytest.mark.tpu_compile

CONFIG = decoder.DecoderConfig(
  "llama", 512, 256, 512, 2, (AttentionConfig(4, 2, 64),), dtype="bfloat16"
)


@pytest.fixture(scope="module")
def model(tpu_mesh):
  return tpu_programs.model_shapes(CONFIG, tpu_mesh)


def test_sample(tpu_mesh, model):
  compiled = tpu_programs.lower_sampler(model, tpu_mesh).compile()
  assert compiled.memory_analysis().temp_size_in_bytes > 0


@pytest.mark.parametrize("micro_batch", [None, 4])
def test_reference_and_update(tpu_mesh, model, micro_batch):
  settings = tpu_programs.objective(micro_batch)
  batch = tpu_programs.batch_shapes(tpu_mesh)
  with jax.set_mesh(tpu_mesh):
    reference = update.log_probs.lower(
      model, batch.prompts, batch.rollout.tokens, settings
    ).compile()
  assert reference.memory_analysis().temp_size_in_bytes > 0
  lowered, train = tpu_programs.lower_update(model, tpu_mesh, settings)
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

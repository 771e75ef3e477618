"""The rules by path, and eight devices against one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from asc_jax import sharding
from asc_jax.models import decoder, lora
from asc_jax.models.layers import AttentionConfig
from asc_jax.types import UserError

B, G, P, T = 4, 3, 9, 5
# SmolLM2's 9 query and 3 key heads: neither divides by the 2 devices of `tensor`,
# the projections' widths do.
CONFIG = decoder.DecoderConfig("llama", 96, 32, 48, 2, (AttentionConfig(9, 3, 8),))
ADAPTER = lora.LoraConfig(rank=4)
LOCAL = {  # of one device, data = fsdp = tensor = 2
  "params/embed/embedding": (48, 16),
  "params/head/kernel": (16, 48),
  "params/final_norm/scale": (32,),
  "params/blocks/layer_0/attn_norm/scale": (2, 32),
  "params/blocks/layer_0/mlp_norm/scale": (2, 32),
  "params/blocks/layer_0/attn/q_proj/kernel": (2, 16, 36),
  "params/blocks/layer_0/attn/k_proj/kernel": (2, 16, 12),
  "params/blocks/layer_0/attn/v_proj/kernel": (2, 16, 12),
  "params/blocks/layer_0/attn/o_proj/kernel": (2, 36, 16),
  "params/blocks/layer_0/mlp/gate_proj/kernel": (2, 16, 24),
  "params/blocks/layer_0/mlp/up_proj/kernel": (2, 16, 24),
  "params/blocks/layer_0/mlp/down_proj/kernel": (2, 24, 16),
}


@pytest.fixture(scope="module")
def mesh():
  return sharding.make_mesh(2, 2, 2)


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, 96, (B, P)).astype(np.int32)
  return tokens, np.array([5, 9, 2, 7], np.int32), rng.integers(0, 96, (B, G, T)).astype(np.int32)


def shapes(tree):
  """{path: shape of one device's part}."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return {sharding.path_name(p): x.sharding.shard_shape(x.shape) for p, x in leaves}


def test_every_parameter_is_split_as_stated(mesh):
  state = decoder.init(CONFIG, jax.random.key(0))
  placed = sharding.shard(state, mesh)
  assert shapes(placed) == LOCAL
  for whole, part in zip(jax.tree.leaves(state), jax.tree.leaves(placed), strict=True):
    np.testing.assert_array_equal(whole, part)


def test_adapters_are_split_along_their_weights(mesh):
  adapter = decoder.init(CONFIG, jax.random.key(0), ADAPTER).adapter
  local = shapes(sharding.shard(adapter, mesh))
  assert local["blocks/layer_0/attn/q_proj/lora_a"] == (2, 16, 4)
  assert local["blocks/layer_0/attn/q_proj/lora_b"] == (2, 4, 36)
  assert local["blocks/layer_0/mlp/down_proj/lora_a"] == (2, 24, 4)
  assert local["blocks/layer_0/mlp/down_proj/lora_b"] == (2, 4, 16)


def test_moments_have_the_spec_of_their_stacked_weight(mesh):
  """Layer axis included, and not replicated: twice the parameters' bytes a device."""
  params = sharding.shard(decoder.init(CONFIG, jax.random.key(0)), mesh).params
  optimizer = optax.adam(1e-3)
  places = sharding.specs(jax.eval_shape(optimizer.init, params), mesh)
  moments = jax.jit(optimizer.init, out_shardings=places)(params)[0]
  for moment in (moments.mu, moments.nu):
    for weight, value in zip(jax.tree.leaves(params), jax.tree.leaves(moment), strict=True):
      assert value.sharding.spec == weight.sharding.spec
  kernel = moments.mu["blocks"]["layer_0"]["attn"]["q_proj"]["kernel"]
  assert kernel.sharding.spec == PartitionSpec(None, "fsdp", "tensor")

  def local_bytes(tree):
    return sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(tree))

  assert local_bytes((moments.mu, moments.nu)) == 2 * local_bytes(params)


def test_a_parameter_without_a_rule_is_an_error_that_names_it(mesh):
  with pytest.raises(ValueError, match="blocks/layer_0/attn/qkv/kernel"):
    sharding.spec("blocks/layer_0/attn/qkv/kernel", (2, 4, 4), mesh)
  with pytest.raises(ValueError, match=r"q_proj/kernel.*\(4, 4\)"):
    sharding.spec("blocks/layer_0/attn/q_proj/kernel", (4, 4), mesh)


def test_a_dimension_that_does_not_divide_stays_whole(mesh):
  assert sharding.spec("embed/embedding", (97, 32), mesh) == PartitionSpec(None, "fsdp")


def test_a_mesh_takes_what_is_left_and_refuses_too_much():
  assert dict(sharding.make_mesh(-1, 2, 2).shape) == {"data": 2, "fsdp": 2, "tensor": 2}
  assert dict(sharding.make_mesh(1, 1, 1).shape) == {"data": 1, "fsdp": 1, "tensor": 1}
  with pytest.raises(UserError, match="needs 32 devices; there are 8"):
    sharding.make_mesh(8, 2, 2)


def test_eight_devices_give_the_loss_and_gradients_of_one(mesh, batch):
  tokens, lengths, answers = batch
  state = decoder.init(CONFIG, jax.random.key(0), ADAPTER)
  state = state.with_trainable(jax.tree.map(lambda x: x + 0.1, state.trainable()))
  weights = np.random.default_rng(1).normal(size=answers.shape).astype(np.float32)

  @jax.jit
  def step(state, tokens, lengths, answers):
    def loss(tree):
      params, adapter = tree
      model = decoder.DecoderState(params, adapter, state.config, state.lora)
      logps = decoder.answer_log_probs(model, tokens, lengths, answers, temperature=0.7, chunk=12)
      return jnp.sum(logps * weights)

    return jax.value_and_grad(loss)((state.params, state.adapter))

  one_loss, one_grads = step(state, tokens, lengths, answers)
  with jax.set_mesh(mesh):
    split = jax.device_put(batch, sharding.batch_spec(mesh))
    loss, grads = step(sharding.shard(state, mesh), *split)
  np.testing.assert_allclose(loss, one_loss, rtol=1e-5)
  for path, wanted in jax.tree_util.tree_leaves_with_path(one_grads):
    got = np.asarray(dict(jax.tree_util.tree_leaves_with_path(grads))[path])
    error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
    assert error <= 1e-5, f"{sharding.path_name(path)} differs by {error}"

"""Adapters: a no-op at the start, the reference with them off, exact when merged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax.models import decoder, lora
from asc_jax.models.layers import AttentionConfig
from asc_jax.types import UserError

B, G, P, T = 2, 3, 7, 5
CONFIG = decoder.DecoderConfig("llama", 61, 24, 40, 3, (AttentionConfig(4, 2, 8),))
ADAPTER = lora.LoraConfig(rank=4, alpha=6.0, targets=("q_proj", "v_proj", "down_proj"))
LENGTHS = np.array([4, 7], np.int32)


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  return rng.integers(0, 61, (B, P)).astype(np.int32), rng.integers(0, 61, (B, G, T))


@pytest.fixture(scope="module")
def fresh():
  return decoder.init(CONFIG, jax.random.key(0), ADAPTER)


@pytest.fixture(scope="module")
def trained(fresh):
  """As after some steps: neither matrix of any adapter is zero."""
  leaves, tree = jax.tree.flatten(fresh.trainable())
  keys = jax.random.split(jax.random.key(1), len(leaves))
  leaves = [0.3 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
  return fresh.with_trainable(tree.unflatten(leaves))


@jax.jit
def logps(state, batch):
  tokens, answers = batch
  return decoder.answer_log_probs(state, tokens, LENGTHS, answers, temperature=1.0, chunk=64)


def test_a_new_adapter_changes_no_bit(fresh, batch):
  np.testing.assert_array_equal(logps(fresh, batch), logps(fresh.reference(), batch))


def test_the_reference_has_the_same_arrays_and_no_adapter(trained, batch):
  reference = trained.reference()
  assert reference.params is trained.params
  assert np.abs(logps(reference, batch) - logps(trained, batch)).max() > 0.1


def test_only_the_targets_have_adapters_and_they_are_all_that_trains(fresh):
  layer = fresh.trainable()["blocks"]["layer_0"]
  assert {k: set(v) for k, v in layer.items()} == {
    "attn": {"q_proj", "v_proj"},
    "mlp": {"down_proj"},
  }
  node = layer["mlp"]["down_proj"]
  assert node["lora_a"].shape == (3, 40, 4)
  assert node["lora_b"].shape == (3, 4, 24)
  assert not node["lora_b"].any()
  assert len({float(a.sum()) for a in node["lora_a"]}) == 3, "each layer draws its own"


def test_merged_weights_give_the_adapters_outputs(trained, batch):
  """Against W + alpha / r A B worked out in NumPy, and through the decoder."""
  merged = lora.merge(trained.params, trained.adapter, trained.lora)
  kernel, node = (
    tree["blocks"]["layer_0"]["mlp"]["down_proj"] for tree in (trained.params, trained.adapter)
  )
  wanted = [
    w + 1.5 * (a @ b)
    for w, a, b in zip(
      *(np.asarray(x, np.float64) for x in (kernel["kernel"], node["lora_a"], node["lora_b"])),
      strict=True,
    )
  ]
  got = merged["blocks"]["layer_0"]["mlp"]["down_proj"]["kernel"]
  np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
  plain = decoder.DecoderState(merged, None, CONFIG)
  np.testing.assert_allclose(logps(plain, batch), logps(trained, batch), rtol=0, atol=1e-4)


def test_every_adapter_matrix_gets_a_gradient(trained, batch):
  total = jax.jit(jax.grad(lambda tree: logps(trained.with_trainable(tree), batch).sum()))
  grads = total(trained.trainable())
  for leaf in jax.tree.leaves(grads):
    assert all(jnp.linalg.norm(x) > 1e-3 for x in leaf)


def test_an_unknown_projection_is_refused_by_name():
  with pytest.raises(UserError, match="'qkv_proj'.*q_proj"):
    lora.LoraConfig(rank=4, targets=lora.parse_targets("q_proj, qkv_proj"))

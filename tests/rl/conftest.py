"""A tiny decoder and a batch with letters that are all different: B 4, G 3, P 11, T 6, S 4."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax import config as config_lib
from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig, Rope
from asc_jax.models.lora import LoraConfig
from asc_jax.types import Batch, Prompts, Rollout, Scores, Sentences

VOCABULARY = 61


@pytest.fixture(scope="session")
def tiny_config():
  layer = AttentionConfig(heads=4, kv_heads=2, head_dim=8, rope=Rope(10_000.0))
  return decoder.DecoderConfig(
    family="llama", vocab_size=VOCABULARY, width=24, mlp_width=40, num_layers=3, group=(layer,)
  )


@pytest.fixture(scope="session")
def policy(tiny_config):
  """Weights large enough that the next token's distribution is far from uniform."""
  state = decoder.init(tiny_config, jax.random.key(1))
  return state.with_trainable(jax.tree.map(lambda x: x * 1.5, state.params))


@pytest.fixture(scope="session")
def adapted(policy):
  return decoder.add_adapter(policy, LoraConfig(rank=2, alpha=4.0), jax.random.key(2))


@pytest.fixture(scope="session")
def prompts():
  rng = np.random.default_rng(0)
  return Prompts(
    rng.integers(3, VOCABULARY, (4, 11)).astype(np.int32),
    np.array([11, 4, 7, 2], np.int32),
    np.array([7, 8, 9, 10], np.uint32),
  )


@pytest.fixture
def settings_config():
  """A config whose batch is `prompts`; tests change what they are about."""
  config = config_lib.default_config()
  config.data.batch_size = 4
  config.rollout.update({"group_size": 3, "max_tokens": 6, "temperature": 0.8})
  config.model.logprob_chunk = 8
  return config


@pytest.fixture(scope="session")
def batch(prompts):
  """A recorded batch: answers of unequal length, some cut off, credit for some sentences."""
  rng = np.random.default_rng(3)
  shape, length, bucket = (4, 3), 6, 4
  lengths = rng.integers(2, length + 1, shape).astype(np.int32)
  tokens = rng.integers(3, VOCABULARY, (*shape, length)).astype(np.int32)
  tokens *= np.arange(length) < lengths[..., None]
  # Two sentences an answer: the first two tokens, then the rest.
  ids = np.where(np.arange(length) < 2, 0, 1) * np.ones((*shape, 1), int)
  ids = np.where(np.arange(length) < lengths[..., None], ids, -1).astype(np.int32)
  mask = np.arange(bucket) <= ids.max(-1, keepdims=True)
  finished = rng.random(shape) < 0.7
  complete = np.ones_like(mask)
  complete[(*np.nonzero(~finished), ids.max(-1)[~finished])] = False
  supported = np.where(mask, rng.random((*shape, bucket)), np.nan).astype(np.float32)
  vacuous = np.where(mask, rng.random((*shape, bucket)) * 0.7, np.nan).astype(np.float32)
  return jax.tree.map(
    jnp.asarray,
    Batch(
      prompts=prompts,
      rollout=Rollout(
        tokens, lengths, rng.normal(-2, 0.1, tokens.shape).astype(np.float32), finished
      ),
      token_mask=np.arange(length) < lengths[..., None],
      sentences=Sentences(
        ids,
        mask,
        np.zeros_like(mask),
        complete,
        mask & (rng.random(mask.shape) < 0.2),
        rng.random(shape).astype(np.float32),
      ),
      scores=Scores(supported, vacuous),
      old_logps=None,
      ref_logps=None,
    ),
  )

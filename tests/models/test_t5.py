"""T5 against transformers' torch implementation: both sides, tied and untied."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from asc_jax.models import t5
from asc_jax.types import UserError

SIZES = dict(
  vocab_size=60,
  d_model=12,
  d_kv=5,  # heads x d_kv is not d_model
  d_ff=18,
  num_layers=3,
  num_decoder_layers=2,
  num_heads=4,
  relative_attention_num_buckets=8,
  relative_attention_max_distance=20,
  feed_forward_proj="gated-gelu",
  decoder_start_token_id=0,
)


def torch_model(tied: bool):
  torch.manual_seed(0)
  config = transformers.T5Config(**SIZES, tie_word_embeddings=tied)
  model = transformers.T5ForConditionalGeneration(config).eval()
  if not tied:  # transformers ties on construction; Flan-T5's file has two matrices
    model.lm_head.weight = torch.nn.Parameter(torch.randn(SIZES["vocab_size"], SIZES["d_model"]))
  with torch.no_grad():
    for p in model.parameters():
      p.add_(0.1 * torch.randn_like(p))
  left_out = {"lm_head.weight"} if tied else set()
  return model, {k: v.numpy() for k, v in model.state_dict().items() if k not in left_out}


@pytest.mark.parametrize("tied", [True, False])
def test_equals_torch(tied):
  reference, weights = torch_model(tied)
  rng = np.random.default_rng(1)
  tokens, targets = rng.integers(1, 60, (3, 31)), rng.integers(1, 60, (3, 4))
  lengths = np.array([31, 2, 17])
  mask = torch.arange(31)[None] < torch.tensor(lengths)[:, None]
  with torch.no_grad():
    wanted = reference(
      input_ids=torch.tensor(tokens),
      attention_mask=mask.long(),
      decoder_input_ids=torch.tensor(targets),
    ).logits.numpy()
  raw = {**SIZES, "tie_word_embeddings": tied}
  model = t5.from_weights(t5.T5Config.from_dict(raw), weights)
  got = model(jnp.asarray(tokens), jnp.asarray(lengths), jnp.asarray(targets))
  np.testing.assert_allclose(got, wanted, atol=1e-4)


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets_equal_torch(both_ways):
  from transformers.models.t5.modeling_t5 import T5Attention

  distance = np.arange(-300, 301)
  got = t5.relative_bucket(jnp.asarray(distance), 32, 128, both_ways)
  wanted = T5Attention._relative_position_bucket(torch.tensor(distance), both_ways, 32, 128)
  np.testing.assert_array_equal(got, wanted.numpy())


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"num_layers": "thirty"}, "T5 checkpoint: num_layers takes an integer, not 'thirty'"),
    ({"layer_norm_epsilon": True}, "layer_norm_epsilon takes a number, not True"),
    ({"d_model": None}, "T5 checkpoint lacks d_model"),
  ],
)
def test_a_wrong_size_is_named(changes, message):
  assert t5.T5Config.from_dict(SIZES | {"layer_norm_epsilon": 1}).layer_norm_epsilon == 1
  with pytest.raises(UserError, match=message):
    t5.T5Config.from_dict(SIZES | changes)


def test_what_is_not_implemented_or_missing_is_named():
  with pytest.raises(UserError, match="feed_forward_proj 'relu'"):
    t5.T5Config.from_dict({**SIZES, "feed_forward_proj": "relu"})
  _, weights = torch_model(False)
  name = "decoder.block.1.layer.1.EncDecAttention.k.weight"
  raw = {**SIZES, "tie_word_embeddings": False}
  with pytest.raises(UserError, match=name):
    t5.from_weights(t5.T5Config.from_dict(raw), {k: v for k, v in weights.items() if k != name})

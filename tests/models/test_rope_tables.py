"""Frequency tables of rotary positions, from every place that states them."""

import numpy as np
import pytest
import test_gguf
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from asc_jax.models import families, gguf
from asc_jax.models.layers import inverse_frequencies
from asc_jax.types import UserError

LLAMA3 = {
  "rope_type": "llama3",
  "rope_theta": 500_000.0,
  "factor": 32.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192,
}
SIZES = {
  "vocab_size": 32,
  "hidden_size": 256,
  "intermediate_size": 64,
  "num_hidden_layers": 3,
  "num_attention_heads": 4,
  "rms_norm_eps": 1e-5,
  "model_type": "llama",
}


def table(**rope):
  config = families.parse(SIZES | rope, "config.json")
  attention = config.group[0]
  assert attention.head_dim == 64
  return inverse_frequencies(attention.rope, attention.head_dim)


@pytest.mark.parametrize("old", [False, True])
def test_llama3_scaling_is_applied(old):
  # Field case: the scaling in the config was parsed and never applied.
  if old:
    scaling = {k: v for k, v in LLAMA3.items() if k != "rope_theta"}
    freqs = table(rope_theta=500_000.0, rope_scaling=scaling)
  else:
    freqs = table(rope_parameters=LLAMA3)
  assert freqs.shape == (32,) and freqs[0] == 1.0
  np.testing.assert_allclose(freqs[-1], 9.418e-08, rtol=1e-3)
  np.testing.assert_allclose(table(rope_theta=500_000.0)[-1], 3.014e-06, rtol=1e-3)


@pytest.mark.parametrize(
  "rope",
  [
    {"rope_type": "default", "rope_theta": 10_000.0},
    {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0},
    LLAMA3,
    LLAMA3 | {"factor": 8.0, "original_max_position_embeddings": 512},
    {
      "rope_type": "longrope",
      "rope_theta": 10_000.0,
      "factor": 1.0,
      "attention_factor": 1.0,
      "original_max_position_embeddings": 8192,
      "short_factor": [1.0 + i / 7 for i in range(32)],
      "long_factor": [1.0 + i / 7 for i in range(32)],
    },
  ],
  ids=lambda rope: rope["rope_type"],
)
def test_tables_equal_those_of_transformers(rope):
  config = LlamaConfig(
    **{k: v for k, v in SIZES.items() if k != "model_type"}, rope_parameters=rope
  )
  theirs = LlamaRotaryEmbedding(config)
  theirs(torch.zeros(1), torch.arange(4)[None])
  np.testing.assert_allclose(table(rope_parameters=rope), theirs.inv_freq.numpy(), rtol=1e-5)
  assert theirs.attention_scaling == 1.0


def test_an_unknown_rope_type_is_an_error():
  with pytest.raises(UserError, match=r"config\.json: rope_type 'spiral' is not supported"):
    table(rope_parameters={"rope_type": "spiral", "rope_theta": 1e4})


def test_rope_freqs_of_a_gguf_file_give_the_same_table(tmp_path):
  plain, scaled = table(rope_theta=500_000.0), table(rope_parameters=LLAMA3)
  factors = (plain / scaled).astype(np.float32)[None]
  assert factors.min() == 1.0 and factors.max() == pytest.approx(32.0)
  tensors = {
    "rope_freqs.weight": (factors[0], test_gguf.F32),
    "token_embd.weight": (np.zeros((5, 64), np.float32), test_gguf.F32),
  }
  path = test_gguf.write(tmp_path / "a.gguf", tensors, rope_freq_base=500_000.0, head_dim=64)
  raw = gguf.config(gguf.read_header(path))
  attention = families.parse(raw, str(path)).group[0]
  assert attention.head_dim == 64
  np.testing.assert_allclose(inverse_frequencies(attention.rope, 64), scaled, rtol=1e-6)

"""Full sizes without weights: names, shapes and count against torch's meta device."""

import math

import pytest
import torch
from transformers import (
  AutoModelForCausalLM,
  Gemma4TextConfig,
  LlamaConfig,
  Olmo2Config,
  Qwen2Config,
  Qwen3_5TextConfig,
  Qwen3Config,
)

from asc_jax.models import families

CONFIGS = {
  "Llama-3.1-8B": lambda: LlamaConfig(
    hidden_size=4096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128_256,
    tie_word_embeddings=False,
  ),
  "Llama-3.2-3B": lambda: LlamaConfig(
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128_256,
    tie_word_embeddings=True,
  ),
  "Qwen2.5-7B": lambda: Qwen2Config(
    hidden_size=3584,
    intermediate_size=18_944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    vocab_size=152_064,
    tie_word_embeddings=False,
  ),
  "Qwen3-8B": lambda: Qwen3Config(
    hidden_size=4096,
    intermediate_size=12_288,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151_936,
    tie_word_embeddings=False,
    rope_theta=1e6,
  ),
  "OLMo-2-13B": lambda: Olmo2Config(
    hidden_size=5120,
    intermediate_size=13_824,
    num_hidden_layers=40,
    num_attention_heads=40,
    num_key_value_heads=40,
    vocab_size=100_352,
    tie_word_embeddings=False,
    rope_theta=5e5,
  ),
  "Qwen3.5-9B": lambda: Qwen3_5TextConfig(
    hidden_size=4096,
    intermediate_size=12_288,
    num_hidden_layers=32,
    num_attention_heads=16,
    num_key_value_heads=4,
    head_dim=256,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    vocab_size=248_320,
    tie_word_embeddings=False,
  ),
  "Gemma-4-31B": lambda: Gemma4TextConfig(
    hidden_size=5376,
    intermediate_size=21_504,
    num_hidden_layers=60,
    num_attention_heads=32,
    num_key_value_heads=16,
    num_global_key_value_heads=4,
    head_dim=256,
    global_head_dim=512,
    attention_k_eq_v=True,
    hidden_size_per_layer_input=0,
    sliding_window=1024,
    final_logit_softcapping=30.0,
    vocab_size=262_144,
  ),
}
BILLIONS = {
  "Llama-3.1-8B": 8.03,
  "Llama-3.2-3B": 3.21,
  "Qwen2.5-7B": 7.62,
  "Qwen3-8B": 8.19,
  "OLMo-2-13B": 13.72,
  "Qwen3.5-9B": 8.95,
  "Gemma-4-31B": 30.7,
}


def expected_tensors(config):
  """{tensor name: shape} that the decoder reads."""
  leaves = families.leaves(config, families.abstract(config))
  return {name: leaf.tensor_shape for leaf in leaves for name in leaf.names}


def count(config):
  return sum(math.prod(leaf.shape) for leaf in families.leaves(config, families.abstract(config)))


@pytest.mark.parametrize("name", CONFIGS)
def test_names_shapes_and_count_are_those_of_transformers(name):
  config = CONFIGS[name]()
  with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(config)
  theirs = {n: tuple(t.shape) for n, t in model.state_dict().items()}
  if config.tie_word_embeddings:
    del theirs["lm_head.weight"]
  ours = families.parse(config.to_dict(), name)
  assert expected_tensors(ours) == theirs
  buffers = sum(x.numel() for n, x in model.named_buffers() if n in theirs)  # layer_scalar
  assert count(ours) == model.num_parameters() + buffers
  assert count(ours) / 1e9 == pytest.approx(BILLIONS[name], abs=0.005)


def test_bespoke_minicheck_7b_by_formula():
  layers, width, mlp, heads, kv, size, vocab = 32, 4096, 14_336, 32, 8, 128, 92_550
  raw = {
    "model_type": "internlm2",
    "hidden_size": width,
    "intermediate_size": mlp,
    "num_hidden_layers": layers,
    "num_attention_heads": heads,
    "num_key_value_heads": kv,
    "vocab_size": vocab,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e6,
    "rope_scaling": {"type": "dynamic", "factor": 2.0},
    "hidden_act": "silu",
    "bias": False,
    "tie_word_embeddings": False,
  }
  config = families.parse(raw, "config.json")
  theirs = {
    "model.tok_embeddings.weight": (vocab, width),
    "model.norm.weight": (width,),
    "output.weight": (vocab, width),
  }
  for i in range(layers):
    theirs |= {
      f"model.layers.{i}.attention.wqkv.weight": ((heads + 2 * kv) * size, width),
      f"model.layers.{i}.attention.wo.weight": (width, heads * size),
      f"model.layers.{i}.attention_norm.weight": (width,),
      f"model.layers.{i}.ffn_norm.weight": (width,),
      f"model.layers.{i}.feed_forward.w1.weight": (mlp, width),
      f"model.layers.{i}.feed_forward.w2.weight": (width, mlp),
      f"model.layers.{i}.feed_forward.w3.weight": (mlp, width),
    }
  assert expected_tensors(config) == theirs
  assert count(config) == sum(math.prod(shape) for shape in theirs.values())

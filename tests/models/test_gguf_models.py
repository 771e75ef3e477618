"""Whole GGUF files of tiny models against torch: names, row order and frequencies together."""

import gguf as gguf_package
import hf_reference as hf
import numpy as np
import pytest
import test_gguf
import torch
from test_families import LENGTHS, ours, reference, worst
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

from asc_jax.models import checkpoints, families, gguf, streaming

SIZES = {
  "hidden_size": test_gguf.WIDTH,
  "intermediate_size": test_gguf.MLP,
  "num_hidden_layers": test_gguf.LAYERS,
  "num_attention_heads": test_gguf.HEADS,
  "num_key_value_heads": test_gguf.KV_HEADS,
  "head_dim": 16,
  "vocab_size": hf.VOCAB,
  "rms_norm_eps": 1e-5,
  "max_position_embeddings": 4096,
}
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
CONFIGS = {
  "llama": lambda: LlamaConfig(**SIZES, rope_parameters=hf.LLAMA3, tie_word_embeddings=True),
  "qwen2": lambda: Qwen2Config(**SIZES, rope_parameters=ROPE, tie_word_embeddings=False),
  "qwen3": lambda: Qwen3Config(**SIZES, rope_parameters=ROPE, tie_word_embeddings=True),
}


def write(model, path, architecture):
  """The model as llama.cpp's converter writes it."""
  names = gguf_package.get_tensor_name_map(
    gguf_package.MODEL_ARCH[architecture.upper()], test_gguf.LAYERS
  )
  tensors = {}
  for name, tensor in model.state_dict().items():
    if name == "lm_head.weight" and model.config.tie_word_embeddings:
      continue
    values, heads = tensor.numpy(), {"q_proj": test_gguf.HEADS, "k_proj": test_gguf.KV_HEADS}
    part = name.split(".")[-2]
    if architecture == "llama" and part in heads:
      values = test_gguf.interleave(values, heads[part])
    tensors[names.get_name(name, try_suffixes=(".weight", ".bias"))] = (values, test_gguf.F32)
  if architecture == "llama":
    rope = model.model.rotary_emb.inv_freq.numpy()
    plain = 10_000.0 ** (-np.arange(0, 16, 2) / 16)
    tensors["rope_freqs.weight"] = ((plain / rope).astype(np.float32), test_gguf.F32)
  return test_gguf.write(path, tensors, architecture, rope_freq_base=10_000.0, head_dim=16)


@pytest.mark.parametrize("architecture", CONFIGS)
def test_logits_equal_those_of_the_original(tmp_path, architecture):
  model = hf.from_config(CONFIGS[architecture]())
  path = write(model, tmp_path / "a.gguf", architecture)
  checkpoint = checkpoints.check(path)
  source = gguf.Source(gguf.read_header(path))
  params = streaming.read_params(source, checkpoint.config, "float32")
  state = checkpoints.DecoderState(params, None, checkpoint.config)
  assert checkpoint.config.tied == model.config.tie_word_embeddings
  expected = reference(model)
  assert min(r.std() for _, _, r in expected) >= 1 and len(LENGTHS) == 3
  assert worst(expected, ours(state)) <= 1e-4


def test_the_config_of_a_file_is_read_by_transformers(tmp_path):
  model = hf.from_config(CONFIGS["llama"]())
  raw = checkpoints.check(write(model, tmp_path / "a.gguf", "llama")).raw
  again = LlamaConfig(**{k: v for k, v in raw.items() if k not in ("model_type", "architectures")})
  table = type(model.model.rotary_emb)(again).inv_freq
  torch.testing.assert_close(table, model.model.rotary_emb.inv_freq)
  assert (
    families.parse(again.to_dict(), "x").group
    == checkpoints.check(tmp_path / "a.gguf").config.group
  )

"""Tiny torch models of each family, saved as checkpoints, and what they compute."""

import json

import numpy as np
import safetensors.numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
  AutoModelForCausalLM,
  Gemma4TextConfig,
  LlamaConfig,
  Olmo2Config,
  PreTrainedTokenizerFast,
  Qwen2Config,
  Qwen3_5TextConfig,
  Qwen3Config,
)

torch.set_num_threads(1)  # tiny products; more threads only wait for each other
VOCAB = 131
SIZES = {
  "vocab_size": VOCAB,
  "hidden_size": 48,
  "intermediate_size": 80,
  "num_hidden_layers": 3,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "max_position_embeddings": 256,
  # Large enough to see whether it is used, and DeltaNet's output norm, which turns an
  # output near zero into one near the unit sphere, does not blow up rounding errors.
  "rms_norm_eps": 0.003,
  "rope_theta": 10_000.0,
  "pad_token_id": None,
  "bos_token_id": 1,
  "eos_token_id": 2,
}
LLAMA3 = {
  "rope_type": "llama3",
  "rope_theta": 10_000.0,
  "factor": 8.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
  "original_max_position_embeddings": 16,
}


def _sizes(**changes):
  return {k: v for k, v in (SIZES | changes).items()}


# One entry a column of the matrix family x check.
CONFIGS = {
  "llama": lambda: LlamaConfig(**_sizes(tie_word_embeddings=False)),
  "llama3": lambda: LlamaConfig(**_sizes(rope_parameters=LLAMA3, tie_word_embeddings=False)),
  "smollm2": lambda: LlamaConfig(
    **_sizes(num_attention_heads=9, num_key_value_heads=3, hidden_size=72, tie_word_embeddings=True)
  ),
  "qwen2": lambda: Qwen2Config(**_sizes(tie_word_embeddings=True)),
  "olmo2": lambda: Olmo2Config(**_sizes(tie_word_embeddings=False)),
  "qwen3_5": lambda: Qwen3_5TextConfig(
    **_sizes(
      num_hidden_layers=8,
      head_dim=24,
      rope_parameters={
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [1, 1, 1],
      },
      linear_num_key_heads=2,
      linear_num_value_heads=6,
      linear_key_head_dim=16,
      linear_value_head_dim=10,
      tie_word_embeddings=False,
    )
  ),
  "gemma4": lambda: Gemma4TextConfig(
    **_sizes(
      num_hidden_layers=6,
      head_dim=12,
      global_head_dim=32,
      num_global_key_value_heads=1,
      attention_k_eq_v=True,
      hidden_size_per_layer_input=0,
      sliding_window=6,
      final_logit_softcapping=30.0,
      rope_parameters=None,
      tie_word_embeddings=True,
    )
  ),
  "qwen3": lambda: Qwen3Config(**_sizes(head_dim=20, tie_word_embeddings=False)),
  # transformers lacks it: a Llama, saved as an InternLM2.
  "internlm2": lambda: LlamaConfig(
    **_sizes(hidden_size=8, head_dim=2, tie_word_embeddings=False), saved_as="internlm2"
  ),
}
FAMILIES = list(CONFIGS)


# Size of random matrices. DeltaNet amplifies rounding: at 1.3, a change of the embedding
# by one unit in the last place moves torch's own logits by up to 3e-4, at 0.7 by 3e-5.
GAINS = {"qwen3_5": 0.7}


def redraw(model, seed=0, gain=1.3):
  """Draws every tensor anew, biases and norms too, so that each one matters."""
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for name, tensor in model.state_dict().items():
      values = torch.randn(tensor.shape, generator=generator)
      if "norm" in name or "layer_scalar" in name:
        values = 1 + 0.3 * values
      elif "A_log" in name or "conv1d" in name:
        values = 0.5 * values
      elif tensor.ndim == 2 and "embed" not in name:
        values = values * (1.3 if "lm_head" in name else gain) * tensor.shape[1] ** -0.5
      tensor.copy_(values)
  return model


def build(family, seed=0):
  return from_config(CONFIGS[family](), seed, GAINS.get(family, 1.3))


def from_config(config, seed=0, gain=1.3):
  model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
  return redraw(model.float().eval(), seed, gain)


def raw_config(family):
  """The config.json of a family, parsed."""
  raw = CONFIGS[family]().to_dict()
  return _internlm2_config(raw) if family == "internlm2" else raw


_INTERNLM2 = {
  "model.embed_tokens": "model.tok_embeddings",
  "lm_head": "output",
  "input_layernorm": "attention_norm",
  "post_attention_layernorm": "ffn_norm",
  "self_attn.o_proj": "attention.wo",
  "mlp.gate_proj": "feed_forward.w1",
  "mlp.up_proj": "feed_forward.w3",
  "mlp.down_proj": "feed_forward.w2",
}


def _internlm2_config(raw):
  raw = {k: v for k, v in raw.items() if k != "rope_parameters"}
  scaling = {"type": "dynamic", "factor": 2.0}
  return raw | {
    "model_type": "internlm2", "bias": False, "rope_theta": 1e4, "rope_scaling": scaling
  }  # fmt: skip


def fused(heads, kv_heads, width):
  """(which, row) of each row of InternLM2's wqkv.

  For each key head its query heads, then the key head, then the value head.
  """
  found = []
  for group in range(kv_heads):
    for head in range(group * heads // kv_heads, (group + 1) * heads // kv_heads):
      found += [("q", head * width + i) for i in range(width)]
    found += [(which, group * width + i) for which in "kv" for i in range(width)]
  return found


def to_internlm2(folder):
  """Turns the checkpoint of a Llama into that of the same InternLM2, in one file."""
  raw = json.loads((folder / "config.json").read_text())
  rows_of = fused(raw["num_attention_heads"], raw["num_key_value_heads"], raw["head_dim"])
  llama = {}
  for file in folder.glob("*.safetensors*"):
    if file.suffix == ".safetensors":
      llama |= safetensors.numpy.load_file(file)
    file.unlink()
  tensors = {}
  for name, tensor in llama.items():
    stem, _, part = name.partition(".self_attn.")
    if part == "q_proj.weight":
      rows = [llama[f"{stem}.self_attn.{which}_proj.weight"][row] for which, row in rows_of]
      tensors[f"{stem}.attention.wqkv.weight"] = np.stack(rows)
    elif part not in ("k_proj.weight", "v_proj.weight"):
      for ours, theirs in _INTERNLM2.items():
        name = name.replace(ours, theirs)
      tensors[name] = tensor
  safetensors.numpy.save_file(tensors, folder / "model.safetensors")
  (folder / "config.json").write_text(json.dumps(_internlm2_config(raw)))


def save(model, folder, max_shard_size="60KB"):
  """A checkpoint folder of several shards, with a tokenizer."""
  model.save_pretrained(folder, max_shard_size=max_shard_size)
  if getattr(model.config, "saved_as", None) == "internlm2":
    to_internlm2(folder)
  characters = ["<unk>", "<s>", "</s>", *(chr(ord("!") + i) for i in range(VOCAB - 3))]
  backend = Tokenizer(models.BPE({c: i for i, c in enumerate(characters)}, []))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  PreTrainedTokenizerFast(
    tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
  ).save_pretrained(folder)
  return folder


def batch_logits(model, rows):
  """float32[R, T, V] of sequences, padded on the right, which a causal model ignores."""
  rows = [torch.tensor(list(map(int, row))) for row in rows]
  return model(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=7)).logits


def logits(model, row):
  """float32[T, V] of one sequence of token ids."""
  with torch.no_grad():
    return batch_logits(model, [row])[0].numpy()

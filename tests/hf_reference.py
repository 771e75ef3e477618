"""Tiny torch models of each family, saved as checkpoints, and what they compute."""

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
}


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
  config = CONFIGS[family]()
  model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
  return redraw(model.float().eval(), seed, GAINS.get(family, 1.3))


def save(model, folder, max_shard_size="60KB"):
  """A checkpoint folder of several shards, with a tokenizer."""
  model.save_pretrained(folder, max_shard_size=max_shard_size)
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

"""A tiny checkpoint folder with a byte-level tokenizer and a chat template, made on the spot."""

import pathlib

TEMPLATE = (
  "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(folder: pathlib.Path) -> pathlib.Path:
  """A Llama of two layers with random weights; one sampled token in sixty ends the answer."""
  import torch
  from tokenizers import Tokenizer, decoders, models, pre_tokenizers
  from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

  letters = sorted(pre_tokenizers.ByteLevel.alphabet())
  special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
  vocabulary = {token: i for i, token in enumerate(special + letters)}
  tokenizer = Tokenizer(models.BPE(vocabulary, []))
  tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  tokenizer.decoder = decoders.ByteLevel()
  tokenizer.add_special_tokens(special)
  wrapped = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>"
  )
  wrapped.chat_template = TEMPLATE
  wrapped.save_pretrained(folder)

  torch.manual_seed(0)
  config = LlamaConfig(
    vocab_size=len(vocabulary),
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=2,
  )
  LlamaForCausalLM(config).float().save_pretrained(folder)
  return folder

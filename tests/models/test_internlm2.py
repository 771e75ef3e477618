"""InternLM2, which transformers lacks, against a Llama twin with the rows fused by hand."""

import json

import hf_reference as hf
import jax
import numpy as np
import pytest
import safetensors.numpy
from transformers import LlamaConfig

from asc_jax.models import checkpoints, families
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

# 2 key heads with 2 query heads each, of width 2: for each key head its query heads,
# then the key head, then the value head. (which, row) of each row of wqkv.
FUSED = [
  *[("q", 0), ("q", 1), ("q", 2), ("q", 3), ("k", 0), ("k", 1), ("v", 0), ("v", 1)],
  *[("q", 4), ("q", 5), ("q", 6), ("q", 7), ("k", 2), ("k", 3), ("v", 2), ("v", 3)],
]
NAMES = {
  "input_layernorm": "attention_norm",
  "post_attention_layernorm": "ffn_norm",
  "self_attn.o_proj": "attention.wo",
  "mlp.gate_proj": "feed_forward.w1",
  "mlp.up_proj": "feed_forward.w3",
  "mlp.down_proj": "feed_forward.w2",
}
TOP = {
  "model.embed_tokens.weight": "model.tok_embeddings.weight",
  "model.norm.weight": "model.norm.weight",
  "lm_head.weight": "output.weight",
}


def fuse(llama):
  """The InternLM2 tensors of a Llama model's."""
  tensors = {TOP[name]: llama[name] for name in TOP}
  for layer in range(hf.SIZES["num_hidden_layers"]):
    prefix = f"model.layers.{layer}."
    for ours, theirs in NAMES.items():
      tensors[f"{prefix}{theirs}.weight"] = llama[f"{prefix}{ours}.weight"]
    parts = {name: llama[f"{prefix}self_attn.{name}_proj.weight"] for name in "qkv"}
    wqkv = np.stack([parts[name][row] for name, row in FUSED])
    tensors[f"{prefix}attention.wqkv.weight"] = wqkv
  return tensors


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
  """(folder of a Llama checkpoint, folder of the InternLM2 checkpoint it stands for)."""
  sizes = hf.SIZES | {"hidden_size": 8, "head_dim": 2, "tie_word_embeddings": False}
  hf.CONFIGS["internlm2-twin"] = lambda: LlamaConfig(**sizes)
  llama = hf.save(hf.build("internlm2-twin"), tmp_path_factory.mktemp("llama"), "1GB")
  del hf.CONFIGS["internlm2-twin"]
  folder = tmp_path_factory.mktemp("internlm2")
  tensors = safetensors.numpy.load_file(llama / "model.safetensors")
  safetensors.numpy.save_file(fuse(tensors), folder / "model.safetensors")
  raw = json.loads((llama / "config.json").read_text())
  raw |= {"model_type": "internlm2", "bias": False, "rope_theta": 1e4}
  del raw["rope_parameters"]
  (folder / "config.json").write_text(
    json.dumps(raw | {"rope_scaling": {"type": "dynamic", "factor": 2.0}})
  )
  for file in llama.glob("tokenizer*"):
    (folder / file.name).write_bytes(file.read_bytes())
  return llama, folder


def test_it_loads_as_its_llama_twin(twins):
  llama, _ = checkpoints.load(twins[0])
  ours, _ = checkpoints.load(twins[1])
  assert ours.config.family == "internlm2"
  assert ours.config.group == llama.config.group
  assert jax.tree.structure(ours.params) == jax.tree.structure(llama.params)
  jax.tree.map(np.testing.assert_array_equal, ours.params, llama.params)


def test_export_fuses_the_rows_again(twins, tmp_path):
  state, tokenizer = checkpoints.load(twins[1])
  raw = checkpoints.check(twins[1]).raw
  checkpoints.export(state, tmp_path / "out", config_json=raw, tokenizer=tokenizer)
  written = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
  original = safetensors.numpy.load_file(twins[1] / "model.safetensors")
  assert written.keys() == original.keys()
  for name, tensor in original.items():
    np.testing.assert_array_equal(written[name], tensor)


def test_an_adapter_on_fused_rows_is_refused_in_pefts_layout(twins, tmp_path):
  state, tokenizer = checkpoints.load(twins[1], lora=LoraConfig(rank=2))
  with pytest.raises(UserError, match=r"internlm2 fuses [qkv]_proj with others"):
    checkpoints.export_adapter(state, tmp_path / "a", base="x", tokenizer=tokenizer)
  assert not (tmp_path / "a").exists()


def test_the_rows_are_those_written_out_above(twins):
  config = checkpoints.check(twins[1]).config
  rows = families.FAMILIES["internlm2"].rows(config)
  for name in "qkv":
    expected = [i for i, (which, _) in enumerate(FUSED) if which == name]
    assert rows[f"attn/{name}_proj/kernel"].tolist() == expected

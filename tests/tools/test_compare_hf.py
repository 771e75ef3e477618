"""The comparison of a folder with transformers, and a tensor that differs in one layer."""

import hf_reference as hf
import numpy as np
import pytest
import torch

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

"""What only InternLM2 has: fused rows. The rest is a column of test_families.py."""

import hf_reference as hf
import jax
import numpy as np
import pytest

from asc_jax.models import checkpoints, families
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

# Of 2 key heads and 2 query heads each, of width 2.
FUSED = [
  *[("q", 0), ("q", 1), ("q", 2), ("q", 3), ("k", 0), ("k", 1), ("v", 0), ("v", 1)],
  *[("q", 4), ("q", 5), ("q", 6), ("q", 7), ("k", 2), ("k", 3), ("v", 2), ("v", 3)],
]


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
  """(folder of a Llama checkpoint, folder of the InternLM2 checkpoint it stands for)."""
  model = hf.build("internlm2")
  folder = hf.save(model, tmp_path_factory.mktemp("internlm2"))
  model.config.saved_as = None
  return hf.save(model, tmp_path_factory.mktemp("llama")), folder


def test_it_loads_as_its_llama_twin(twins):
  llama, _ = checkpoints.load(twins[0])
  ours, _ = checkpoints.load(twins[1])
  assert ours.config.family == "internlm2"
  assert ours.config.group == llama.config.group
  assert jax.tree.structure(ours.params) == jax.tree.structure(llama.params)
  jax.tree.map(np.testing.assert_array_equal, ours.params, llama.params)


def test_an_adapter_on_fused_rows_is_refused_in_pefts_layout(twins, tmp_path):
  state, tokenizer = checkpoints.load(twins[1], lora=LoraConfig(rank=2))
  with pytest.raises(UserError, match=r"internlm2 fuses [qkv]_proj with others"):
    checkpoints.export_adapter(state, tmp_path / "a", base="x", tokenizer=tokenizer)
  assert not (tmp_path / "a").exists()


def test_the_rows_are_those_written_out(twins):
  assert hf.fused(heads=4, kv_heads=2, width=2) == FUSED
  config = checkpoints.check(twins[1]).config
  rows = families.FAMILIES["internlm2"].rows(config)
  for name in "qkv":
    expected = [i for i, (which, _) in enumerate(FUSED) if which == name]
    assert rows[f"attn/{name}_proj/kernel"].tolist() == expected

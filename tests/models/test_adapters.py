"""Adapters in peft's layout, read back: the same weights, and peft's own logits."""

import json
import shutil

import hf_reference as hf
import jax
import jax.numpy as jnp
import numpy as np
import peft
import pytest
import tiny_checkpoint
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

from asc_jax.models import adapters, checkpoints, decoder
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

ROW = [5, 9, 40, 77, 12]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  """A tiny model's folder, its decoder with a random adapter, and the adapter's folder."""
  folder = tiny_checkpoint.write(tmp_path_factory.mktemp("model"))
  lora = LoraConfig(rank=2, alpha=6.0, targets=("q_proj", "o_proj", "down_proj"))
  state, tokenizer = checkpoints.load(folder, lora=lora)
  keys = iter(jax.random.split(jax.random.key(1), 99))
  random = jax.tree.map(lambda x: 0.3 * jax.random.normal(next(keys), x.shape), state.adapter)
  state = state.with_trainable(random)
  out = folder.parent / f"{folder.name}-adapter"
  checkpoints.export_adapter(state, out, base=str(folder), tokenizer=tokenizer)
  return folder, state, out


def last_logits(state):
  tokens = jnp.array([ROW], jnp.int32)
  prefix = decoder.prefill(state, tokens, jnp.array([len(ROW)], jnp.int32))
  hidden, _ = decoder.extend(state, prefix, tokens[:, None, -1:], 0)
  return np.asarray(decoder.logits(state, hidden))[0, 0, 0]


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_what_was_written_is_read_back_and_is_what_peft_computes(written):
  folder, state, out = written
  plain = state.reference()
  again = adapters.attach(plain, adapters.read(out, plain.config))
  assert again.lora == LoraConfig(2, 6.0, ("down_proj", "o_proj", "q_proj"))
  jax.tree.map(np.testing.assert_array_equal, again.adapter, state.adapter)
  model = AutoModelForCausalLM.from_pretrained(folder)
  theirs = peft.PeftModel.from_pretrained(model, out).eval()
  wanted = hf.logits(theirs, ROW)[-1]
  assert np.abs(wanted - last_logits(plain)).max() > 0.1
  np.testing.assert_allclose(last_logits(again), wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("field, value", [("r", 2.5), ("lora_alpha", -3), ("lora_alpha", True)])
def test_a_rank_or_scale_that_is_none_is_refused(written, tmp_path, field, value):
  raw = json.loads((written[2] / "adapter_config.json").read_text())
  shutil.copy(written[2] / adapters.WEIGHTS, tmp_path)
  (tmp_path / "adapter_config.json").write_text(json.dumps(raw | {field: value}))
  with pytest.raises(UserError, match=r"r=.* and lora_alpha=.*; a rank and a number above 0"):
    adapters.read(tmp_path, written[1].config)


@pytest.mark.parametrize(
  "field, value",
  [
    ("peft_type", "IA3"),
    ("use_dora", True),
    ("rank_pattern", {"q_proj": 4}),
    ("fan_in_fan_out", True),
  ],
)
def test_other_kinds_of_adapter_are_refused(written, tmp_path, field, value):
  raw = json.loads((written[2] / "adapter_config.json").read_text()) | {field: value}
  (tmp_path / "adapter_config.json").write_text(json.dumps(raw))
  with pytest.raises(UserError, match=f"{field}=.* is not supported"):
    adapters.read(tmp_path, written[1].config)


def test_damaged_and_foreign_adapters_are_refused(written, tmp_path):
  _, state, out = written
  settings, weights = tmp_path / "adapter_config.json", tmp_path / adapters.WEIGHTS
  with pytest.raises(UserError, match=r"adapter_config.json is missing"):
    adapters.read(tmp_path, state.config)
  settings.write_text((out / "adapter_config.json").read_text())
  with pytest.raises(UserError, match="holds no readable adapter"):
    adapters.read(tmp_path, state.config)
  with pytest.raises(UserError, match=r"adapter_config\.json.*: Not a directory; give a folder"):
    adapters.read(settings, state.config)
  tensors = load_file(out / adapters.WEIGHTS)
  last = max(tensors)
  save_file({name: x for name, x in tensors.items() if name != last}, weights)
  with pytest.raises(UserError, match=f"lacks {last}"):
    adapters.read(tmp_path, state.config)
  head = "base_model.model.lm_head.lora_A.weight"
  save_file(tensors | {head: np.zeros((2, 32), np.float32)}, weights)
  with pytest.raises(UserError, match=f"no place for {head}"):
    adapters.read(tmp_path, state.config)
  save_file(tensors, weights)
  settings.write_text(json.dumps(json.loads(settings.read_text()) | {"r": 3}))
  with pytest.raises(UserError, match=r"is \[2, \d+\], the model asks for \[3, \d+\]"):
    adapters.read(tmp_path, state.config)

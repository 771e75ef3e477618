"""The export command on a run's checkpoint, read back by transformers and peft."""

import hf_reference as hf
import jax
import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from asc_jax import config as config_lib
from asc_jax.models import checkpoints
from asc_jax.models.lora import LoraConfig
from asc_jax.rl import checkpointing
from asc_jax.tools import export
from asc_jax.types import UserError


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  return hf.save(hf.build("qwen2"), tmp_path_factory.mktemp("base"))


def save_run(state, workdir):
  """A checkpoint as the trainer saves it, optimizer included."""
  run = checkpointing.Checkpoints(workdir)
  moments = jax.tree.map(np.zeros_like, state.trainable())
  run.save(7, {"trainable": state.trainable(), "opt_state": (moments, moments)}, {"config": {}})
  run.wait()


def moved(state):
  """The state after some training."""
  keys = iter(jax.random.split(jax.random.key(5), 100))
  tree = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(next(keys), x.shape), state.trainable())
  return state.with_trainable(tree)


def config(base, rank=0):
  config = config_lib.default_config()
  config.model.path, config.model.lora.rank = str(base), rank
  return config


def test_a_full_fine_tune_is_written_bit_equal(base, tmp_path):
  state = moved(checkpoints.load(base)[0])
  save_run(state, tmp_path / "run")
  export.main(config(base), str(tmp_path / "run"), str(tmp_path / "out"), adapter=False)
  again, _ = checkpoints.load(tmp_path / "out")
  jax.tree.map(np.testing.assert_array_equal, again.params, state.params)
  theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
  embedding = torch.from_numpy(np.array(state.params["embed"]["embedding"]))
  assert torch.equal(theirs["model.embed_tokens.weight"], embedding)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_an_adapter_is_merged_or_written_alone(base, tmp_path):
  targets = config(base).model.lora.targets
  lora = LoraConfig(rank=2, alpha=16.0, targets=tuple(targets.split(",")))
  save_run(moved(checkpoints.load(base, lora=lora)[0]), tmp_path / "run")
  export.main(config(base, 2), str(tmp_path / "run"), str(tmp_path / "merged"), adapter=False)
  export.main(config(base, 2), str(tmp_path / "run"), str(tmp_path / "alone"), adapter=True)
  merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
  plain = AutoModelForCausalLM.from_pretrained(base)
  row = [5, 9, 30, 77, 4]
  before = hf.logits(plain, row)
  adapted = peft.PeftModel.from_pretrained(plain, tmp_path / "alone").eval()
  np.testing.assert_allclose(hf.logits(merged, row), hf.logits(adapted, row), atol=1e-4, rtol=0)
  assert np.abs(hf.logits(merged, row) - before).max() > 0.1


def test_what_cannot_be_exported_is_refused(base, tmp_path):
  run, out = str(tmp_path / "run"), str(tmp_path / "out")
  with pytest.raises(UserError, match="holds no complete checkpoint"):
    export.main(config(base), run, out, adapter=False)
  with pytest.raises(UserError, match="--out=FOLDER is missing"):
    export.main(config(base), run, None, adapter=False)
  with pytest.raises(UserError, match=r"exists; name a folder"):
    export.main(config(base), run, str(base), adapter=False)
  with pytest.raises(UserError, match="--out=/dev/null/out cannot be written"):
    export.main(config(base), run, "/dev/null/out", adapter=False)
  with pytest.raises(UserError, match="needs an adapter"):
    export.main(config(base), run, out, adapter=True)
  save_run(checkpoints.load(base, lora=LoraConfig(rank=2))[0], run)
  with pytest.raises(UserError, match=r"is of another model: trainable/\S+ has shape"):
    export.main(config(base), run, out, adapter=False)
  assert not (tmp_path / "out").exists()

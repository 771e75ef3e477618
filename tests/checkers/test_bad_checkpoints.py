"""Damaged or incomplete checkpoints of the encoders: one line that names what is wrong."""

import shutil

import numpy as np
import pytest
import safetensors.numpy
import torch
import transformers
from tiny_checkpoints import roberta_config, roberta_tokenizer, save, t5_folder

from asc_jax import checkers
from asc_jax.types import UserError

HEADS = {"minicheck_t5": "lm_head.weight", "nli": "classifier.out_proj.weight"}


@pytest.fixture(scope="module", params=HEADS)
def whole(request, tmp_path_factory):
  """(name, folder of a checkpoint that loads)."""
  folder = tmp_path_factory.mktemp(request.param)
  if request.param == "nli":
    roberta_tokenizer().save_pretrained(folder)
    torch.manual_seed(0)
    config = roberta_config(num_labels=2, id2label={0: "refuted", 1: "supported"})
    transformers.RobertaForSequenceClassification(config).save_pretrained(folder)
  else:
    save(t5_folder(folder)[0], folder)
  return request.param, folder


@pytest.fixture
def broken(whole, tmp_path):
  """(name, a copy that a test may break)."""
  return whole[0], shutil.copytree(whole[1], tmp_path / "copy")


def change(folder, edit):
  tensors = safetensors.numpy.load_file(folder / "model.safetensors")
  edit(tensors)
  safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def refused(broken, match):
  with pytest.raises(UserError, match=match) as info:
    checkers.load(broken[0], str(broken[1])).score(["Snow fell."], ["It snowed."])
  assert "\n" not in str(info.value)


def test_without_its_tokenizer(broken):
  for file in [*broken[1].glob("*token*"), *broken[1].glob("vocab*")]:
    file.unlink()
  refused(broken, r"copy has none of tokenizer\.json, .*; copy the tokenizer's files there")


def test_with_a_damaged_tokenizer(broken):
  (broken[1] / "tokenizer.json").write_text("{")
  refused(broken, r"has no readable tokenizer .*copy its tokenizer files there")


def test_with_a_damaged_config(broken):
  (broken[1] / "config.json").write_text("{")
  refused(broken, r"config\.json is not JSON .*download it again")


def test_without_its_head(broken):
  head = HEADS[broken[0]]
  change(broken[1], lambda tensors: tensors.pop(head))
  refused(broken, rf"has no tensor {head}".replace(".", r"\."))


def test_with_a_cut_file(broken):
  file = broken[1] / "model.safetensors"
  file.write_bytes(file.read_bytes()[:-100])
  refused(broken, r"model\.safetensors is not readable .*download it again")


def test_with_weights_that_give_no_probability(broken):
  def damage(tensors):
    tensors[HEADS[broken[0]]][:] = np.nan

  change(broken[1], damage)
  refused(broken, rf"{broken[0]} scored nan on 'It snowed\.', which is no probability")

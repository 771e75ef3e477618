"""Checkers on several devices and in another type: scores of one device, weights where they belong."""

import jax
import numpy as np
import pytest
import torch
import transformers
from tiny_checkpoints import (
  PAIRS,
  decoder_folder,
  roberta_config,
  roberta_tokenizer,
  roughen,
  save,
  t5_folder,
)

from asc_jax import checkers, sharding
from asc_jax.checkers import minicheck_t5, placement, shared_document
from asc_jax.config import default_config
from asc_jax.types import UserError


def write_judge(folder):
  model, tokenizer = decoder_folder(folder)
  with torch.no_grad():
    model.lm_head.weight.mul_(4)
  model.save_pretrained(folder)
  return tokenizer


def write_t5(folder):
  save(t5_folder(folder)[0], folder)


def write_nli(folder):
  roberta_tokenizer().save_pretrained(folder)
  torch.manual_seed(0)
  config = roberta_config(num_labels=2, id2label={0: "refuted", 1: "supported"})
  roughen(transformers.RobertaForSequenceClassification(config), seed=3).save_pretrained(folder)


WRITERS = {"judge": write_judge, "minicheck_t5": write_t5, "nli": write_nli}


# Eight rows a batch, so that eight devices have one each, of the one length that is used.
TOKENS = {"judge": 8 * 256, "minicheck_t5": 8 * 512, "nli": 8 * 100}


@pytest.fixture(scope="module", autouse=True)
def one_shape():
  """One program an instrument to compile, not one a length."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(shared_document, "PREFIX_BUCKETS", (1024,))
    patch.setattr(shared_document, "REST_BUCKETS", (256,))
    patch.setattr(minicheck_t5, "BUCKETS", (512,))
    yield


@pytest.fixture(scope="module", params=WRITERS)
def section(request, tmp_path_factory):
  """The section `checker` of a config for a tiny instrument."""
  folder = tmp_path_factory.mktemp(request.param)
  WRITERS[request.param](folder)
  section = default_config().checker
  name = request.param
  section.update({"name": name, "path": str(folder), "tokens_per_batch": TOKENS[name]})
  return section


@pytest.fixture(scope="module")
def exact(section):
  """The instrument on one device, and its scores of `PAIRS`' first seven."""
  checker = checkers.from_config(section)
  scores = checker.score(*zip(*PAIRS[:7], strict=True))
  assert np.ptp(scores) > 0.01  # a thousand times what is tolerated below
  return checker, scores


def check(checker, exact, count):
  got = checker.score(*zip(*PAIRS[:count], strict=True))
  np.testing.assert_allclose(got, exact[1][:count], atol=1e-5, rtol=0)
  assert checker.weights_hash == exact[0].weights_hash


def places(checker):
  """Devices that hold weights, and what share of them the first one holds."""
  leaves = jax.tree.leaves(checker._state)
  here = sum(x.addressable_shards[0].data.size for x in leaves)
  whole = sum(x.size for x in leaves)
  return {d.id for x in leaves for d in x.sharding.device_set}, here / whole


def test_scores_on_the_policys_eight_devices_are_those_of_one(section, exact):
  eight = checkers.from_config(section, sharding.make_mesh(2, 2, 2))
  check(eight, exact, 7)
  devices, share = places(eight)
  assert devices == set(range(8))
  # A decoder is split over all devices, whatever the policy's axes (but for its keys' and
  # values' 12 columns); an encoder is copied.
  assert share < 0.2 if section.name == "judge" else share == 1


def test_own_devices_take_the_place_of_the_policys(section, exact):
  own = section.copy_and_resolve_references()
  own.devices = "5, 6"
  checker = checkers.from_config(own, sharding.make_mesh(2, 1, 1))
  assert places(checker)[0] == {5, 6}
  check(checker, exact, 3)


def test_a_decoder_has_its_own_type_and_another_hash(section, exact):
  low = section.copy_and_resolve_references()
  low.dtype = "bfloat16"
  if section.name != "judge":
    with pytest.raises(UserError, match=rf"{section.name} has no option dtype; drop"):
      checkers.from_config(low)
    return
  checker = checkers.from_config(low)
  assert {x.dtype.name for x in jax.tree.leaves(checker._state)} == {"bfloat16"}
  assert checker.weights_hash != exact[0].weights_hash  # a cache keeps both
  scores = checker.score(*zip(*PAIRS[:2], strict=True))
  assert 0 < np.abs(scores - exact[1][:2]).max() < 0.1


def test_rows_are_split_where_they_divide():
  mesh = sharding.make_mesh(2, 2, 2)
  tokens, lengths = placement.rows(mesh, np.zeros((16, 3)), np.zeros(16))
  assert {s.data.shape for s in tokens.addressable_shards} == {(2, 3)}
  assert {s.data.shape for s in lengths.addressable_shards} == {(2,)}
  (odd,) = placement.rows(mesh, np.zeros((5, 3)))
  assert {s.data.shape for s in odd.addressable_shards} == {(5, 3)}


@pytest.mark.parametrize("devices", ["8", "one", "-1", "1,,2", ""])
def test_devices_that_are_not_there_are_one_line(devices):
  with pytest.raises(UserError, match=r"takes numbers from 0 to 7 with commas"):
    placement.make_mesh(devices, None)


def test_a_device_named_twice_is_one_line():
  with pytest.raises(UserError, match=r"devices=1,1 names a device twice"):
    placement.make_mesh("1,1", None)


def test_an_instrument_without_a_model_to_place_says_so():
  section = default_config().checker
  section.update({"name": "lexical", "devices": "0"})
  with pytest.raises(UserError, match=r"lexical has no devices of its own; drop config\.checker"):
    checkers.from_config(section)

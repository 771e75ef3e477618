"""Pairs from a tiny model: R by hand, resumed to the same bytes, chosen again without sampling."""

import json

import pytest
import tiny_checkpoint

from asc_jax import checkers
from asc_jax import config as config_lib
from asc_jax.checkers.base import Checker
from asc_jax.data import preferences
from asc_jax.models import checkpoints
from asc_jax.text import copying, sentences
from asc_jax.tools import make_pairs
from asc_jax.types import UserError

FROM_CONFIG = checkers.from_config


class Lengths(Checker):
  """Half of all sentences are supported; one in seven cannot be scored."""

  name, weights_hash = "lengths", "0"

  def _score(self, documents, sentences):
    return [None if len(s) % 7 == 3 else len(s) % 2 for s in sentences]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return str(tiny_checkpoint.write(tmp_path_factory.mktemp("tiny")))


def settings(model):
  config = config_lib.default_config()
  config.model.path = model
  config.data.update({"passage_words": 30, "instruction": "Answer.", "prompt_buckets": (512,)})
  config.rollout.update({"group_size": 4, "max_tokens": 24, "temperature": 1.0})
  return config


@pytest.fixture
def config(model, monkeypatch):
  monkeypatch.setattr(checkers, "from_config", lambda config, mesh: Lengths())
  return settings(model)


@pytest.fixture(scope="module")
def made(model, tmp_path_factory):
  """(samples' bytes, pairs' bytes) of a run left alone."""
  folder = tmp_path_factory.mktemp("made")
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(checkers, "from_config", lambda config, mesh: Lengths())
    make_pairs.main(settings(model), str(folder / "pairs"), None)
  return (folder / "pairs.samples").read_bytes(), (folder / "pairs").read_bytes()


def test_r_is_the_share_of_supported_sentences(made, tmp_path):
  (tmp_path / "samples").write_bytes(made[0])
  _, samples = preferences.read_samples(tmp_path / "samples")
  kinds = {"finished": 0, "cut": 0, "unscored": 0}
  for sample in samples:
    kinds["unscored"] += 4 - len(sample.answers)
    for answer in sample.answers:
      texts = [answer.answer[start:end] for start, end in sentences.split(answer.answer)]
      said = [any(c.isalnum() for c in text) for text in texts]  # a blank one is unsupported
      assert not any(len(t) % 7 == 3 for t, says in zip(texts, said, strict=True) if says)
      if texts and not answer.finished:
        said[-1] = False  # nor does a sentence that the limit cut off earn anything
      found = sum(len(t) % 2 for t, says in zip(texts, said, strict=True) if says)
      assert abs(answer.R - found / max(len(texts), 1)) < 1e-6
      assert answer.words == len(copying.copy_mask(answer.answer, []))
      kinds["finished" if answer.finished else "cut"] += 1
  assert all(kinds.values()), kinds
  (tmp_path / "pairs").write_bytes(made[1])
  found = [preferences.choose(s) for s in samples]
  assert preferences.read(tmp_path / "pairs") == [p for p in found if p]


def test_a_killed_run_goes_on_to_the_same_bytes(config, made, tmp_path, capsys):
  lines = made[0].split(b"\n")
  (tmp_path / "kept").write_bytes(b"\n".join(lines[:4]) + b"\n" + lines[4][:50])
  config.data.batch_size = 5  # draws the same, whatever else is in a batch
  make_pairs.main(config, str(tmp_path / "pairs"), str(tmp_path / "kept"))
  assert (tmp_path / "kept").read_bytes() == made[0]
  assert (tmp_path / "pairs").read_bytes() == made[1]
  count = made[1].count(b'"chosen"')
  assert f"pairs {count}\n" in capsys.readouterr().out


def test_matched_pairs_are_chosen_without_sampling_again(config, made, tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoints, "load", None)
  config_lib.apply_method(config, "dpo_copy_matched")
  (tmp_path / "kept").write_bytes(made[0])
  make_pairs.main(config, str(tmp_path / "matched"), str(tmp_path / "kept"))
  assert preferences.read(tmp_path / "matched", config.dpo.copy_tolerance)


def test_bad_input_is_named_before_weights_load(config, made, tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoints, "load", None)
  out, kept = str(tmp_path / "pairs"), tmp_path / "pairs.samples"
  with pytest.raises(UserError, match="--out=FILE is missing"):
    make_pairs.main(config, None, None)
  with pytest.raises(UserError, match="nowhere/pairs cannot be written"):
    make_pairs.main(config, str(tmp_path / "nowhere" / "pairs"), None)
  with pytest.raises(UserError, match="--samples and --out both name"):
    make_pairs.main(config, out, out)
  config.rollout.group_size, group_size = 1, config.rollout.group_size
  with pytest.raises(UserError, match="group_size must be at least 2"):
    make_pairs.main(config, out, None)
  config.rollout.group_size = group_size
  config.checker.score_copied = False
  with pytest.raises(UserError, match="score_copied=True"):
    make_pairs.main(config, out, None)
  config.checker.score_copied = True
  assert not list(tmp_path.iterdir())
  config.data.batch_size, config.mesh.data = 3, 2
  with pytest.raises(UserError, match="batch_size=3 does not divide"):
    make_pairs.main(config, out, None)
  config.mesh.data = 1
  monkeypatch.setattr(checkers, "from_config", FROM_CONFIG)
  usual = config.checker.name
  config.checker.update({"name": "nli", "path": str(tmp_path / "nowhere")})
  with pytest.raises(UserError, match="nowhere holds no config.json"):
    make_pairs.main(config, out, None)
  assert not list(tmp_path.iterdir())  # else the command with the right path would be refused
  config.checker.update({"name": usual, "path": None})
  kept.write_bytes(made[0])
  config.rollout.temperature = 0.5
  with pytest.raises(UserError, match=r"another config \(rollout.temperature: 1.0 -> 0.5\)"):
    make_pairs.main(config, out, None)
  kept.write_text(json.dumps({"corpus": "quickstart"}) + "\n")
  with pytest.raises(UserError, match="pairs.samples:1: expected an object as 'config'"):
    make_pairs.main(config, out, None)

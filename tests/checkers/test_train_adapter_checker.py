"""The adapter that makes a decoder a checker: it learns, and the judge scores with it."""

import json
import random
import re
import shutil

import numpy as np
import peft
import pytest
import tiny_checkpoints
import torch
from safetensors.numpy import save_file

from asc_jax import checkers
from asc_jax.checkers import fitting, shared_document
from asc_jax.config import default_config
from asc_jax.data import training_claims
from asc_jax.models import adapters, checkpoints
from asc_jax.tools import train_adapter_checker as tool
from asc_jax.types import UserError

PROMPT = "{document}\nSentence: {sentence}\nTrue?"
WORDS = ("Yes", "No", "closed", "burnt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A tiny decoder, its prompt, and pairs that one word decides."""
  folder = tmp_path_factory.mktemp("checker")
  model, _ = tiny_checkpoints.decoder_folder(folder, words=WORDS)
  model.save_pretrained(folder)
  (folder / "prompt.txt").write_text(PROMPT)
  tiny_checkpoints.labelled_pairs(folder, "Mill {} closed.", "It {}.")
  return folder


@pytest.fixture
def config(folder):
  config = default_config(tool.FIELDS)
  config.update({"model": {"path": str(folder)}, "prompt": str(folder / "prompt.txt")})
  config.model.lora.update({"rank": 4, "targets": "q_proj,v_proj,down_proj"})
  config.optimizer.update({"learning_rate": 0.02, "warmup_steps": 2})
  config.data.update({"path": str(folder), "claims": 2, "epochs": 8})
  return config


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_the_loss_falls_and_the_judge_with_the_adapter_is_peft(
  config, folder, tmp_path, capsys, monkeypatch
):
  monkeypatch.setattr(tool, "PREFIXES", (64,))
  monkeypatch.setattr(tool, "RESTS", (48,))
  monkeypatch.setattr(shared_document, "PREFIX_BUCKETS", (64,))
  monkeypatch.setattr(shared_document, "REST_BUCKETS", (48,))
  out = tmp_path / "adapter"
  tool.main(config, str(out))
  losses = [float(x) for x in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
  assert len(losses) > 2 and losses[-1] < 0.2 < losses[0]

  options = {"prompt": str(folder / "prompt.txt"), "tokens_per_batch": 96}
  judge = checkers.load("judge", str(folder), adapter=str(out), **options)
  plain = checkers.load("judge", str(folder), **options)
  strong = shutil.copytree(out, tmp_path / "strong") / "adapter_config.json"
  strong.write_text(json.dumps(json.loads(strong.read_text()) | {"lora_alpha": 160}))
  scaled = checkers.load("judge", str(folder), adapter=str(strong.parent), **options)
  assert len({judge.weights_hash, plain.weights_hash, scaled.weights_hash}) == 3
  pairs = [(f"Mill {i} closed.", f"It {word}.") for i in (7, 88) for word in ("closed", "burnt")]
  got = judge.score(*zip(*pairs, strict=True))
  assert got[[0, 2]].min() > 0.8 and got[[1, 3]].max() < 0.2

  tokenizer = judge.tokenizer
  model, _ = tiny_checkpoints.decoder_folder(tmp_path, words=WORDS)
  theirs = peft.PeftModel.from_pretrained(model, out).eval()
  for (document, sentence), score in zip(pairs, got, strict=True):
    text = PROMPT.replace("{document}", document).replace("{sentence}", sentence)
    ids = tokenizer.apply_chat_template(
      [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
    )
    with torch.no_grad():
      p = theirs(torch.tensor([ids])).logits[0, -1].softmax(-1).numpy()
    yes, no = (p[tokenizer.convert_tokens_to_ids(word)] for word in ("Yes", "No"))
    assert score == pytest.approx(yes / (yes + no), abs=1e-4)


def test_documents_are_filled_up_with_sentences_that_were_made(config):
  config.data.claims = 4
  found = training_claims.read(config.data, random.Random(0))
  for document, own in found.items():
    assert len(own) == 4 and [c.kind for c in own] == ["begin", "begin", "made", "made"]
    assert own[2].sentence not in document or own[2].supported
  asked = tool.judge.question(config.model.path, config.prompt)
  groups = list(tool.encode(asked, found, 4))
  weights = np.array([w for g in groups for w in g.weights])
  assert weights.mean() == pytest.approx(1)
  document, own = next(iter(found.items()))
  for rest, supported, claim in zip(groups[0].rests, groups[0].supported, own, strict=True):
    messages = asked.messages(document, claim.sentence)
    wanted = asked.tokenizer.apply_chat_template(
      messages, add_generation_prompt=True, return_dict=False
    )
    assert groups[0].prefix[:-1] + rest == wanted and supported == claim.supported


def test_what_cannot_be_written_or_trained_is_refused_first(config, tmp_path):
  with pytest.raises(UserError, match="--out=FOLDER is missing"):
    tool.main(config, None)
  with pytest.raises(UserError, match="exists; name a folder that does not"):
    tool.main(config, str(tmp_path))
  config.model.lora.rank = 0
  with pytest.raises(UserError, match="rank is 0"):
    tool.main(config, str(tmp_path / "new"))
  config.model.lora.rank, config.prompt = 2, str(tmp_path / "none.txt")
  with pytest.raises(UserError, match="^config.prompt: there is no file"):
    tool.main(config, str(tmp_path / "new"))


def test_a_fit_that_diverges_writes_nothing(config, tmp_path):
  config.data.epochs = 1
  config.optimizer.update({"learning_rate": 3e38, "warmup_steps": 0})
  with pytest.raises(UserError, match=r"step \d+: loss .*; lower config.optimizer.learning_rate"):
    tool.main(config, str(tmp_path / "out"))
  assert not list(tmp_path.iterdir())


def test_an_adapter_of_another_model_is_refused_before_any_weight_is_read(
  folder, tmp_path, monkeypatch
):
  raw = {"peft_type": "LORA", "bias": "none", "r": 2, "lora_alpha": 4}
  (tmp_path / "adapter_config.json").write_text(json.dumps(raw))
  name = "base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"
  save_file({name: np.zeros((2, 8), np.float32)}, tmp_path / adapters.WEIGHTS)
  monkeypatch.setattr(checkpoints, "load", lambda *_, **__: pytest.fail("weights were read"))
  with pytest.raises(UserError, match=f"no place for {name}"):
    checkers.load("judge", str(folder), adapter=str(tmp_path), prompt=str(folder / "prompt.txt"))


def test_a_set_is_left_out_by_its_name(config):
  config.data.left_out = "begin,wice"
  with pytest.raises(UserError, match="left_out: 'wice' is none of begin"):
    training_claims.read(config.data, random.Random(0))
  config.data.left_out = "begin"
  with pytest.raises(UserError, match="left_out names every set"):
    training_claims.read(config.data, random.Random(0))
  config.data.update({"left_out": None, "words": 1})
  with pytest.raises(UserError, match="no pair in the split checker_a .* at most 1 words"):
    training_claims.read(config.data, random.Random(0))


def test_labels_count_alike_in_each_set_and_sets_by_their_size():
  def claims(kind, *labels):
    return [training_claims.Claim("It closed.", label, kind) for label in labels]

  own = {"d": claims("x", True, True, True, False), "e": claims("made", True, False)}
  assert fitting.claim_weights(own) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2, 1, 1])

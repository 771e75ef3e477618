"""DPO: the loss against torch on unshared prompts, what is joined and left out, a whole run."""

import functools
from typing import ClassVar

import jax
import numpy as np
import pytest
import tiny_checkpoint
import torch
from gradient_distance import relative

from asc_jax import config as config_lib
from asc_jax.data import preferences
from asc_jax.data.corpora import read as read_corpus
from asc_jax.data.preferences import Pair, Scored
from asc_jax.models import checkpoints
from asc_jax.rl import dpo, logs, methods, rollouts, update
from asc_jax.types import Example, UserError

BETA = 0.3


@pytest.fixture
def pairs(batch, policy, settings_config):
  """Four pairs of unlike lengths; a reference that differs from the policy."""
  lengths = np.array([[3, 6], [1, 2], [5, 4], [2, 2]])
  mask = np.arange(6) < lengths[..., None]
  tokens = batch.rollout.tokens[:, :2]
  settings = update.objective(settings_config)._replace(temperature=1.0)
  other = policy.with_trainable(jax.tree.map(lambda x: 0.8 * x, policy.params))
  reference = update.log_probs(other, batch.prompts, tokens, settings)
  return dpo.Pairs(batch.prompts, tokens, mask, reference), settings


def test_the_loss_is_torchs_on_prompts_that_are_not_shared(pairs, policy):
  batch, settings = pairs
  loss, _, metrics = jax.jit(functools.partial(dpo.gradients, settings=settings, beta=BETA))(
    policy, batch
  )
  margins = []
  for b in range(4):
    sides = []
    for g in range(2):
      prompt = jax.tree.map(lambda x, b=b: x[b : b + 1], batch.prompts)
      answer = batch.tokens[b : b + 1, g : g + 1]
      logps = np.asarray(update.log_probs(policy, prompt, answer, settings))[0, 0]
      keep = batch.mask[b, g]
      sides.append((logps[keep] - np.asarray(batch.ref_logps)[b, g][keep]).sum(dtype=np.float64))
    margins.append(BETA * (sides[0] - sides[1]))
  expected = -torch.nn.functional.logsigmoid(torch.tensor(margins)).mean().item()
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  right = np.mean(np.array(margins) > 0)
  assert 0 < right < 1
  assert metrics["loss/accuracy"].total / metrics["loss/accuracy"].weight == right


def test_micro_batches_and_padding_change_nothing(pairs, policy):
  batch, settings = pairs
  gradients = jax.jit(dpo.gradients, static_argnames=("settings", "beta"))
  whole = gradients(policy, batch, settings=settings, beta=BETA)
  parts = gradients(policy, batch, settings=settings._replace(micro_batches=4), beta=BETA)
  np.testing.assert_allclose(parts[0], whole[0], rtol=1e-5)
  assert relative(parts[1], whole[1]) < 1e-5
  junk = batch._replace(
    tokens=np.where(batch.mask, batch.tokens, 60),
    ref_logps=np.where(batch.mask, batch.ref_logps, np.nan),
  )
  again = gradients(policy, junk, settings=settings, beta=BETA)
  np.testing.assert_allclose(again[0], whole[0], rtol=1e-6)


def pair(id_, chosen, rejected, corpus="c"):
  return Pair(corpus, id_, "q", Scored(chosen, True, 1.0, 0, 1), Scored(rejected, False, 0.0, 0, 1))


def test_pairs_are_joined_to_questions_and_counted():
  class Letters:
    added_tokens_decoder: ClassVar = {}

    def __call__(self, text, add_special_tokens):
      assert not add_special_tokens
      return {"input_ids": [ord(c) for c in text]}

  questions = [rollouts.Question(Example(id_, "c", "q"), (1,), "") for id_ in "1234"]
  rows = [
    pair("4", "b", ""),
    pair("3", "abc", "a"),
    pair("1", "ab", "abc"),
    pair("2", "a", "b", "d"),
  ]
  found, counts = dpo.tasks(Letters(), questions, rows, 7, 3)
  assert [(t.question.example.id, t.answers) for t in found] == [
    ("1", ((97, 98, 7), (97, 98, 99))),  # only a finished answer has its end
    ("4", ((98, 7), ())),
  ]
  assert counts == {
    "no pair": 1, "pairs with an answer over 3 tokens": 1, "pairs of other questions": 1,
  }  # fmt: skip


@pytest.fixture
def config(tmp_path):
  config = config_lib.apply_method(config_lib.default_config(), "dpo")
  config.model.path = str(tiny_checkpoint.write(tmp_path / "model"))
  config.data.update({"passage_words": 30, "prompt_buckets": (512,), "instruction": "Answer."})
  config.rollout.max_tokens = 24
  config.checker.name = "lexical"
  config.optimizer.update({"learning_rate": 1e-2, "warmup_steps": 1})
  config.train.update({"steps": 3, "checkpoint_every": 0})
  config.eval.questions = 0
  config.dpo.pairs = str(tmp_path / "pairs.jsonl")
  examples, _ = read_corpus("quickstart", None)
  rows = [pair(e.id, "It does so.", "No idea, sorry!", e.corpus) for e in examples]
  preferences.write(config.dpo.pairs, rows)
  return config


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_learns_the_preference_and_leaves_the_reference(config, tmp_path, rank):
  config.model.lora.rank = rank
  workdir = tmp_path / "run"
  first = methods.loop_of(config)(config, workdir)
  assert first.train_work.counts["pairs of other questions"] > 0  # those of evaluation
  items = first.train_work.questions[:2]
  before = np.asarray(first.batch(items, 0)[0].ref_logps)
  first.run(workdir)
  np.testing.assert_array_equal(first.batch(items, 0)[0].ref_logps, before)
  rows = logs.read_metrics(workdir / "metrics.jsonl")
  assert rows[0]["loss/total"] == pytest.approx(np.log(2), abs=1e-5)  # still the reference
  assert rows[-1]["loss/margin"] > 0.05 and rows[-1]["loss/accuracy"] == 1


def test_bad_pairs_are_named_before_weights_load(config, tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoints, "load", None)
  preferences.write(config.dpo.pairs, [pair("1", "a", "b", "other")])
  with pytest.raises(UserError, match="no usable pair for the part 'train' .*other questions: 1"):
    methods.loop_of(config)(config)
  with open(config.dpo.pairs, "a") as file:
    file.write('{"corpus": "quickstart", "id": 3}\n')
  with pytest.raises(UserError, match=r"pairs.jsonl:2: expected a string as 'id'"):
    methods.loop_of(config)(config)
  config.dpo.pairs = None
  with pytest.raises(UserError, match="config.method=dpo needs config.dpo.pairs=FILE"):
    methods.loop_of(config)(config)

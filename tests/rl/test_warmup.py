"""Supervised warm-up: the loss against a plain loop, what is left out, and a whole run."""

import functools
import json
from typing import ClassVar

import jax
import numpy as np
import pytest
import tiny_checkpoint
from gradient_distance import relative

from asc_jax import config as config_lib
from asc_jax.rl import logs, methods, rollouts, update, warmup
from asc_jax.types import Example, UserError


def test_the_loss_is_the_mean_negative_log_probability(policy, batch, settings_config):
  settings = update.objective(settings_config)._replace(temperature=1.0)
  lengths = np.array([[3, 0, 6], [1, 2, 0], [6, 5, 4], [2, 2, 2]])  # 0: no such reference
  mask = np.arange(6) < lengths[..., None]
  references = warmup.References(batch.prompts, batch.rollout.tokens, mask)
  loss, grads, metrics = jax.jit(functools.partial(warmup.gradients, settings=settings))(
    policy, references
  )
  logps = np.asarray(update.log_probs(policy, batch.prompts, batch.rollout.tokens, settings))
  total, count = 0.0, 0
  for index in np.ndindex(*lengths.shape):
    for t in range(lengths[index]):
      total, count = total - logps[index][t], count + 1
  np.testing.assert_allclose(loss, total / count, rtol=1e-5)
  assert float(metrics["loss/nll"].weight) == count
  # The same as the policy gradient of advantages that are all one.
  settings_config.loss.update({"beta": 0.0, "normalise": "token"})
  ones = lambda batch, settings: (mask.astype(np.float32), {})  # noqa: E731
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(update, "token_advantages", ones)
    settings = update.objective(settings_config)._replace(temperature=1.0)
    _, wanted, _ = jax.jit(functools.partial(update.gradients, settings=settings))(
      policy, batch._replace(token_mask=mask)
    )
  assert relative(grads, wanted) < 1e-5


def test_micro_batches_add_up(policy, batch, settings_config):
  settings = update.objective(settings_config)._replace(temperature=1.0)
  references = warmup.References(batch.prompts, batch.rollout.tokens, batch.token_mask)
  gradients = jax.jit(warmup.gradients, static_argnames="settings")
  whole = gradients(policy, references, settings=settings)
  parts = gradients(policy, references, settings=settings._replace(micro_batches=4))
  np.testing.assert_allclose(whole[0], parts[0], rtol=1e-5)
  assert relative(parts[1], whole[1]) < 1e-5


def test_long_and_missing_references_are_counted():
  class Letters:
    added_tokens_decoder: ClassVar = {}

    def __call__(self, text, add_special_tokens):
      assert not add_special_tokens
      return {"input_ids": [ord(c) for c in text]}

  def question(*answers):
    return rollouts.Question(Example("1", "c", "q", answers=answers), (1,), "")

  found, counts = warmup.tasks(
    Letters(), [question("ab", "abcd", "a", "b"), question(), question("abcde")], 7, 2, 3
  )
  assert [task.answers for task in found] == [((97, 98, 7), (97, 7))]
  assert counts == {"no reference answer": 1, "reference answers over 3 tokens": 2}


@pytest.fixture
def config(tmp_path):
  config = config_lib.apply_method(config_lib.default_config(), "sft")
  config.model.path = str(tiny_checkpoint.write(tmp_path / "model"))
  config.data.update({"passage_words": 30, "prompt_buckets": (512,), "instruction": "Answer."})
  config.rollout.max_tokens = 400
  config.checker.name = "bespoke"  # without a path: nothing is evaluated, so it is not loaded
  config.optimizer.update({"learning_rate": 1e-2, "warmup_steps": 1})
  config.train.update({"steps": 3, "checkpoint_every": 0})
  config.eval.questions = 0
  return config


def test_a_run_lowers_the_loss_and_resumes(config, tmp_path):
  workdir = tmp_path / "run"
  first = methods.loop_of(config)(config, workdir)
  first.run(workdir)
  losses = [row["loss/nll"] for row in logs.read_metrics(workdir / "metrics.jsonl")]
  assert len(losses) == 3 and losses[-1] < 0.9 * losses[0]
  again = methods.loop_of(config)(config, workdir)
  assert again.first_step == 3 and again.digest() == first.digest()


def test_a_corpus_without_references_is_refused(config, tmp_path):
  row = {
    "id": "1",
    "input": "Who?",
    "passages": [{"title": "t", "text": "A text.", "sentences": ["A text."]}],
    "output": [{"answer": "", "selected_sentences": [], "meta": {}}],
  }
  path = tmp_path / "clapnq.jsonl"
  path.write_text(json.dumps(row) + "\n")
  config.data.update({"corpus": "clapnq", "path": str(path), "split": "all", "batch_size": 1})
  with pytest.raises(UserError, match="reference answer of at most config.rollout.max_tokens=400"):
    methods.loop_of(config)(config)


def test_weights_and_biases_is_asked_for_before_weights_load(config, monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  config.train.wandb = "project"
  with pytest.raises(UserError, match="pip install wandb"):
    methods.loop_of(config)(config)

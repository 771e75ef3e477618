"""The packaged corpus, questions and configs fit together."""

import pathlib

import pytest

from asc_jax import cli
from asc_jax import config as config_lib
from asc_jax.corver import build, verify
from asc_jax.data import corpora
from asc_jax.text import answers

CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("corver_*.py"))


@pytest.fixture(scope="module")
def config():
  return cli.load_config(str(next(c for c in CONFIGS if c.stem == "corver_quickstart")))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_configs_are_valid(path):
  config = cli.load_config(str(path))
  config_lib.validate(config)
  verify.parse_levels(config.corver.levels)
  assert config.method == "corver" and config.corver.on
  assert str(path.name) in path.read_text()  # its own command


def test_the_papers_settings():
  found = {}
  for path in CONFIGS:
    config = cli.load_config(str(path))
    if path.stem != "corver_quickstart":
      found[path.stem] = (config.optimizer.learning_rate, config.loss.beta)
      assert (config.model.lora.rank, config.model.lora.alpha) == (128, 256)
      assert (config.rollout.group_size, config.rollout.max_tokens) == (16, 1024)
      assert (config.train.steps, config.data.prompt_buckets[-1]) == (100, 256)
  assert found == {
    "corver_llama3b": (1e-5, 1e-3),
    "corver_llama8b": (1e-5, 1e-3),
    "corver_olmo13b": (3e-6, 1e-2),
    "corver_qwen4b": (1e-5, 1e-3),
    "corver_qwen8b": (1e-5, 1e-3),
    "corver_qwen14b": (2.5e-5, 0.0),
  }


def test_the_corpus_answers_every_question(config):
  examples, _ = corpora.read(config.data.corpus, config.data.path)
  documents = list(build.documents([config.corver.index]))
  assert len(examples) == 70
  for example in examples:
    assert any(answers.alias_match(d, example.aliases) for d in documents), example.question


def test_the_corpus_tells_facts_from_errors(config):
  """What the reward must be able to see, on three levels."""
  named = config.corver.index
  verifier = verify.from_config(config.corver)
  assert config.corver.index == named
  facts = {
    "Paris is the capital of France.": 0.1,
    "The capital of Norway is Oslo.": 0.1,
    "Hamlet was written by William Shakespeare.": 0.1,
    "Jupiter was seen by Galileo.": 0.0,
    "Lyon is the capital of France.": -0.3,
    "Einstein discovered radium.": -0.3,
    "It is hard to say.": 0.0,
  }
  found = [verdict.reward for verdict in verifier(list(facts))]
  assert dict(zip(facts, found, strict=True)) == facts

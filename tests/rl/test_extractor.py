"""Requests written through the sampler against transformers, one request at a time."""

import jax
import numpy as np
import pytest
import tiny_checkpoint

from asc_jax import config as config_lib
from asc_jax import sharding
from asc_jax.corver import triplets, verify
from asc_jax.rl import extractor, sampler
from asc_jax.rl.sampler import Sampling
from asc_jax.types import UserError

SENTENCES = ["Ada lived in Oslo.", "※ is odd.", "So it is.", "Ada Lovelace met Charles Babbage."]


def test_starts_are_kept_and_what_follows_is_greedy(policy, prompts):
  """A begun answer goes on as the whole prompt would, whatever its company's lengths."""
  settings = Sampling(3, 9, temperature=0.0)
  free = sampler.sample(policy, prompts, jax.random.key(0), settings)
  tokens = np.asarray(free.tokens)
  lengths = np.array([[0, 2, 5]] * 4, np.int32)  # the greedy answer's own first tokens
  prefix = sampler.decoder.prefill(policy, prompts.tokens, prompts.lengths)
  begun = sampler.sample_after(
    policy, prefix, prompts, jax.random.key(0), settings, sampler.Starts(tokens[:, :, :5], lengths)
  )
  np.testing.assert_array_equal(begun.tokens, tokens)
  np.testing.assert_array_equal(begun.lengths, free.lengths)
  other = sampler.Starts(np.full((4, 3, 1), 40, np.int32), np.ones((4, 3), np.int32))
  settings = settings._replace(stop_ids=(40,))
  forced = sampler.sample_after(policy, prefix, prompts, jax.random.key(0), settings, other)
  assert (np.asarray(forced.tokens[:, :, 0]) == 40).all()
  assert (np.asarray(forced.lengths) > 1).all(), "a stop token that is given ends nothing"
  assert not np.asarray(forced.logps[:, :, 0]).any()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  return tiny_checkpoint.write(tmp_path_factory.mktemp("extractor"))


@pytest.fixture
def section(checkpoint):
  config = config_lib.default_config().corver
  config.extractor, config.extractor_tokens = str(checkpoint), 12
  return config


def test_completions_are_those_of_transformers(checkpoint, section, monkeypatch):
  import torch
  from transformers import AutoModelForCausalLM, AutoTokenizer

  monkeypatch.setattr(extractor, "ROWS", 3)
  monkeypatch.setattr(extractor, "REST", 24)
  made = extractor.load(section, dtype="float32", mesh=sharding.make_mesh(tensor=2))
  requests = [triplets.extractor_prompt(s) for s in SENTENCES]
  found = made(requests)
  model = AutoModelForCausalLM.from_pretrained(checkpoint)
  tokenizer = AutoTokenizer.from_pretrained(checkpoint)
  for request, text in zip(requests, found, strict=True):
    turns = [{"role": "user", "content": request}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")
    ids = ids if isinstance(ids, torch.Tensor) else ids["input_ids"]
    written = model.generate(
      ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
    )
    assert text == tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
  assert len(set(found)) > 1
  assert made._prefilled.cache_info().misses < len(requests)
  assert made(requests[1:2]) == found[1:2]


def test_a_model_is_the_verifiers_extractor(section, tmp_path):
  (tmp_path / "corpus.txt").write_text("Ada lived in Oslo.\n")
  section.index = str(tmp_path / "corpus.txt")
  verifier = verify.from_config(section, lambda requests: ['[["Ada", "met", "Oslo"]]'] * 2)
  assert [v.occurrences for v in verifier(SENTENCES[:2])] == [1, 1]


@pytest.mark.parametrize(
  ("text", "message"), [(None, "cannot be read"), ("No place.", "has no {} where")]
)
def test_prompts_that_are_refused(section, tmp_path, text, message):
  path = tmp_path / "prompt.txt"
  if text is not None:
    path.write_text(text)
  section.extractor_prompt = str(path)
  with pytest.raises(UserError, match=message):
    extractor.load(section, dtype="float32", mesh=None)

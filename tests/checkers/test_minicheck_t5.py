"""MiniCheck-T5 against a pipeline in torch, written from the published description."""

import re

import numpy as np
import pytest
import torch
from tiny_checkpoints import DOCUMENTS, PAIRS, SENTENCES, save, spreading, t5_folder

from asc_jax import checkers
from asc_jax.checkers import minicheck_t5
from asc_jax.types import UserError

CHUNK_WORDS, WINDOW = 12, 220


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  folder = tmp_path_factory.mktemp("t5")
  model, tokenizer = t5_folder(folder)
  states = []
  for document, sentence in PAIRS:
    for tokens in inputs(tokenizer, document, sentence):
      with torch.no_grad():
        out = model(
          input_ids=torch.tensor([tokens]),
          decoder_input_ids=torch.tensor([[0]]),
          output_hidden_states=True,
        )
      states.append(out.decoder_hidden_states[-1][0, 0].numpy())
  with torch.no_grad():
    model.lm_head.weight[209] = model.lm_head.weight[3] + spreading(states, deviation=4.0)
  save(model, folder)
  return folder, model, tokenizer


@pytest.fixture
def checker(tiny, monkeypatch):
  monkeypatch.setattr(minicheck_t5, "CHUNK_WORDS", CHUNK_WORDS)
  monkeypatch.setattr(minicheck_t5, "WINDOW", WINDOW)
  monkeypatch.setattr(minicheck_t5, "BUCKETS", (64, 128, WINDOW))
  return checkers.load("minicheck_t5", str(tiny[0]), tokens_per_batch=440)


def reference_chunks(text):
  """Fills chunks sentence by sentence; a sentence beyond the limit is cut at it."""
  chunks, current = [], []
  for sentence in re.split(r"(?<=\.) |(?<=。)", text):
    words = sentence.split()
    if len(current) + len(words) > CHUNK_WORDS and current:
      chunks.append(current)
      current = []
    while len(words) > CHUNK_WORDS:
      chunks.append(words[:CHUNK_WORDS])
      words = words[CHUNK_WORDS:]
    current = current + words
  return [" ".join(c) for c in [*chunks, current] if c]


def inputs(tokenizer, document, sentence):
  for chunk in reference_chunks(document):
    tokens = tokenizer(f"predict: {chunk}</s>{sentence}").input_ids
    separator = tokens.index(1)
    if len(tokens) > WINDOW:  # the chunk gives way
      tokens = tokens[: separator - (len(tokens) - WINDOW)] + tokens[separator:]
    yield tokens


def reference(tiny, document, sentence, *, ids=(3, 209), best=max, dropped=0):
  _, model, tokenizer = tiny
  values = []
  for tokens in list(inputs(tokenizer, document, sentence))[dropped:]:
    with torch.no_grad():
      logits = model(
        input_ids=torch.tensor([tokens]), decoder_input_ids=torch.tensor([[0]])
      ).logits[0, 0]
    values.append(float(logits[list(ids)].softmax(-1)[1]))
  return best(values) if values else 0.0


def test_equals_the_torch_pipeline(checker, tiny):
  got = checker.score(*zip(*PAIRS, strict=True))
  wanted = [reference(tiny, d, s) for d, s in PAIRS]
  assert min(wanted) < 0.1 and max(wanted) > 0.9
  assert max(len(reference_chunks(d)) for d in DOCUMENTS) >= 4
  assert sum(len(t) == WINDOW for p in PAIRS for t in inputs(tiny[2], *p)) >= 2  # cut ones
  np.testing.assert_allclose(got, wanted, atol=1e-4)
  for wrong in (dict(ids=(209, 3)), dict(best=min), dict(dropped=1)):
    other = [reference(tiny, d, s, **wrong) for d, s in PAIRS]
    assert np.abs(got - other).max() > 0.01, wrong


def test_scores_do_not_depend_on_the_batch_or_its_order(checker):
  whole = checker.score(*zip(*PAIRS, strict=True))
  order = np.random.default_rng(0).permutation(len(PAIRS))[:9]
  part = checker.score(*zip(*[PAIRS[i] for i in order], strict=True))
  np.testing.assert_array_equal(part, whole[order])
  np.testing.assert_array_equal(checker.score(*zip(PAIRS[3], strict=True))[0], whole[3])


def test_an_end_token_in_a_text_is_text(checker):
  (chunk,) = checker._chunk_ids("Snow fell.</s>It rained.")
  assert 1 not in chunk
  assert checker._end_ids("It</s>snowed.").count(1) == 2  # before the sentence and after it


def test_a_sentence_beyond_the_window_is_not_scored(checker):
  long = "mill " * 200
  got = checker.score([DOCUMENTS[2]] * 3, [SENTENCES[0], long, ""])
  assert np.isnan(got[1]) and 0 < got[0] < 1 and got[2] == 0


def test_bad_checkpoints_are_one_line(tmp_path, tiny):
  with pytest.raises(UserError, match=r"needs config\.checker\.path"):
    checkers.load("minicheck_t5")
  with pytest.raises(UserError, match=r"holds no config\.json"):
    checkers.load("minicheck_t5", str(tmp_path))
  (tmp_path / "config.json").write_text((tiny[0] / "config.json").read_text())
  with pytest.raises(UserError, match=r"holds no \*\.safetensors"):
    checkers.load("minicheck_t5", str(tmp_path))

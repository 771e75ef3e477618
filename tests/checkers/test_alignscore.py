"""AlignScore and NLI heads against pipelines in torch, on tiny checkpoints."""

import json
import re

import numpy as np
import pytest
import torch
import transformers
from tiny_checkpoints import DOCUMENTS, PAIRS, roberta_config, roberta_tokenizer, roughen, spreading

from asc_jax import checkers
from asc_jax.checkers import alignscore
from asc_jax.types import UserError

CHUNK_WORDS = 14
WINDOW = 100


class TorchAlignScore(torch.nn.Module):
  """The published model's parts and names."""

  def __init__(self):
    super().__init__()
    self.base_model = transformers.RobertaModel(roberta_config())
    self.bin_layer = torch.nn.Linear(16, 2)
    self.tri_layer = torch.nn.Linear(16, 3)
    self.reg_layer = torch.nn.Linear(16, 1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  folder = tmp_path_factory.mktemp("alignscore")
  tokenizer = roberta_tokenizer()
  tokenizer.save_pretrained(folder)
  roberta_config().save_pretrained(folder)
  model = roughen(TorchAlignScore(), seed=1)
  states = [pooled(model, tokenizer, *pair) for pair in PAIRS]
  with torch.no_grad():
    model.tri_layer.weight[0] = model.tri_layer.weight[1] + spreading(np.stack(states))
  torch.save({"epoch": 2, "state_dict": model.state_dict()}, folder / "AlignScore-tiny.ckpt")
  return folder, model, tokenizer


@pytest.fixture
def checker(tiny, monkeypatch):
  monkeypatch.setattr(alignscore, "CHUNK_WORDS", CHUNK_WORDS)
  return checkers.load("alignscore", str(tiny[0]), tokens_per_batch=256)


def pooled(model, tokenizer, chunk, sentence):
  tokens = tokenizer(
    chunk, sentence, truncation="only_first", max_length=WINDOW, return_tensors="pt"
  )
  with torch.no_grad():
    return (
      model.base_model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask)
      .pooler_output[0]
      .numpy()
    )


def split(text):
  return [s.strip() for s in re.split(r"(?<=\.) |(?<=。)", text) if s.strip()]


def reference(tiny, document, claim, *, best=max, dropped=0, classes=(0, 1, 2)):
  _, model, tokenizer = tiny
  sentences = split(document)
  n = len(document.split()) // CHUNK_WORDS + 1
  size = max(len(sentences) // n, 1)
  chunks = [" ".join(sentences[i : i + size]) for i in range(0, len(sentences), size)]
  scores = []
  for part in split(claim):
    values = []
    for chunk in chunks[dropped:]:
      with torch.no_grad():
        logits = model.tri_layer(torch.tensor(pooled(model, tokenizer, chunk, part)))
      values.append(float(logits.softmax(-1)[classes[0]]))
    scores.append(best(values) if values else 0.0)
  return float(np.mean(scores))


def test_equals_the_torch_pipeline(checker, tiny):
  pairs = [*PAIRS, (DOCUMENTS[0], "The mill closed. It burnt. Nobody came back.")]
  got = checker.score(*zip(*pairs, strict=True))
  wanted = [reference(tiny, d, s) for d, s in pairs]
  assert min(wanted) < 0.1 and max(wanted) > 0.9
  np.testing.assert_allclose(got, wanted, atol=1e-4)
  for wrong in (dict(classes=(1, 0, 2)), dict(best=min), dict(dropped=1)):
    other = [reference(tiny, d, s, **wrong) for d, s in pairs]
    assert np.abs(got - other).max() > 0.01, wrong


def test_the_longest_sentence_cuts_the_chunk(tiny):
  tokenizer = tiny[2]
  longest = max(PAIRS, key=lambda p: len(tokenizer(*p).input_ids))
  assert len(tokenizer(*longest).input_ids) > WINDOW  # the comparison above covers it


def test_scores_do_not_depend_on_the_batch_or_its_order(checker):
  whole = checker.score(*zip(*PAIRS, strict=True))
  order = np.random.default_rng(0).permutation(len(PAIRS))[:7]
  part = checker.score(*zip(*[PAIRS[i] for i in order], strict=True))
  np.testing.assert_array_equal(part, whole[order])


def test_a_separator_in_a_text_is_text(checker):
  texts = [f"Bees dance.{mark} Cats dance" for mark in ("</s></s>", "< /s>< /s>", "")]
  for scores in (
    checker.score(["Snow fell."] * 3, texts),
    checker.score(texts, ["Snow fell."] * 3),
  ):
    assert scores[0] == scores[1] != scores[2]


def test_a_sentence_beyond_the_window_is_not_scored(checker):
  got = checker.score([DOCUMENTS[2]] * 2, ["Bees dance.", "bees " * 200])
  assert 0 < got[0] < 1 and np.isnan(got[1])


def test_a_checkpoint_without_the_head_is_named(tiny, tmp_path):
  _, model, tokenizer = tiny
  tokenizer.save_pretrained(tmp_path)
  roberta_config().save_pretrained(tmp_path)
  with pytest.raises(UserError, match=r"holds 0 \.ckpt files"):
    checkers.load("alignscore", str(tmp_path))
  state = {k: v for k, v in model.state_dict().items() if not k.startswith("tri_layer")}
  torch.save({"state_dict": state}, tmp_path / "cut.ckpt")
  with pytest.raises(UserError, match=r"no tensor tri_layer\.bias"):
    checkers.load("alignscore", str(tmp_path))


LABELS = ["entailment", "neutral", "contradiction"]


def nli_folder(folder, order, names):
  """One classifier whose classes stand in `order`, called `names` in that order."""
  roberta_tokenizer().save_pretrained(folder)
  torch.manual_seed(3)
  config = roberta_config(num_labels=3, id2label=dict(enumerate(names)))
  model = roughen(transformers.RobertaForSequenceClassification(config), seed=2)
  with torch.no_grad():
    out = model.classifier.out_proj
    out.weight.copy_(0.5 * out.weight[order])
    out.bias.copy_(out.bias[order])
  model.save_pretrained(folder)
  return model


def test_swapped_label_orders_give_the_same_probability(tmp_path):
  # A three-class head returns numbers; which of them is "supported" follows from its name.
  scores = []
  for order in ([0, 1, 2], [2, 0, 1]):
    folder = tmp_path / str(order[0])
    model = nli_folder(folder, order, [LABELS[i] for i in order])
    got = checkers.load("nli", str(folder)).score(["Snow fell."], ["Snow fell."])[0]
    tokens = roberta_tokenizer()("Snow fell.", "Snow fell.", return_tensors="pt")
    with torch.no_grad():
      logits = model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits
    wanted = float(logits.softmax(-1)[0, order.index(0)])
    np.testing.assert_allclose(got, wanted, atol=1e-4)
    scores.append(got)
  np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)
  assert checkers.load("nli", str(tmp_path / "0"), label="neutral").score(
    ["Snow fell."], ["Snow fell."]
  )[0] != pytest.approx(scores[0])


def test_labels_without_names_need_a_mapping(tmp_path):
  nli_folder(tmp_path, [0, 1, 2], ["LABEL_0", "LABEL_1", "LABEL_2"])
  with pytest.raises(UserError, match=r"which class of .* set config\.checker\.label"):
    checkers.load("nli", str(tmp_path))
  with pytest.raises(UserError, match="which class"):
    checkers.load("nli", str(tmp_path), label="3")
  by_index = checkers.load("nli", str(tmp_path), label="1").score(["Snow."], ["Snow fell."])
  by_name = checkers.load("nli", str(tmp_path), label="LABEL_1").score(["Snow."], ["Snow fell."])
  np.testing.assert_array_equal(by_index, by_name)


def test_a_head_that_its_names_do_not_describe_is_refused(tmp_path):
  nli_folder(tmp_path, [0, 1, 2], LABELS)
  raw = json.loads((tmp_path / "config.json").read_text())
  for names, message in (
    ({"0": "entailment", "1": "other"}, "head of 3 classes and 2 names"),
    (["entailment"], "id2label maps no numbers to names"),
  ):
    (tmp_path / "config.json").write_text(json.dumps({**raw, "id2label": names}))
    with pytest.raises(UserError, match=message):
      checkers.load("nli", str(tmp_path))
  (tmp_path / "config.json").write_text(json.dumps({**raw, "vocab_size": 8}))
  with pytest.raises(UserError, match="the tokenizer has .* tokens and the model 8"):
    checkers.load("nli", str(tmp_path))


def test_another_architecture_is_refused(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta"}))
  with pytest.raises(UserError, match="is a deberta model"):
    checkers.load("nli", str(tmp_path))

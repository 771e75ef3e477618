"""The cross-encoder learns from the labelled pairs, and is scored as transformers would."""

import re

import numpy as np
import pytest
import tiny_checkpoints
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors

from asc_jax import checkers
from asc_jax.config import default_config
from asc_jax.tools import train_cross_encoder as tool
from asc_jax.types import UserError

WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "mill", "closed", "burnt", "it", ".")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A tiny BERT, and pairs in which the sentence's word is the document's or is not."""
  folder = tmp_path_factory.mktemp("encoder")
  vocabulary = {w: i for i, w in enumerate([*WORDS, *map(str, range(60))])}
  tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
  tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
  tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
  names = {f"{word[1:-1].lower()}_token": word for word in WORDS[:5]}
  transformers.BertTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
  config = transformers.BertConfig(
    vocab_size=len(vocabulary),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=16,
  )
  model = tiny_checkpoints.roughen(transformers.BertModel(config), seed=0, amount=0.1)
  with torch.no_grad():
    model.embeddings.token_type_embeddings.weight.mul_(3)
  model.save_pretrained(folder)
  tiny_checkpoints.labelled_pairs(folder, "mill {} closed .", "it {} .")
  return folder


@pytest.fixture
def config(folder):
  config = default_config(tool.FIELDS)
  config.encoder.path = str(folder)
  config.optimizer.update({"learning_rate": 0.003, "warmup_steps": 2})
  config.data.update({"path": str(folder), "claims": 2, "epochs": 20})
  return config


def test_the_loss_falls_and_nli_scores_as_transformers_does(config, tmp_path, capsys):
  out = tmp_path / "cross"
  tool.main(config, str(out))
  losses = [float(x) for x in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
  assert len(losses) > 1 and losses[-1] < 0.2 < losses[0]

  checker = checkers.load("nli", str(out), tokens_per_batch=64)
  documents = ["mill 7 closed .", "mill 88 burnt .", "mill " * 30, "."]
  sentences = ["it closed .", "it burnt .", "mill 5 closed it .", "it ."]
  got = checker.score(documents, sentences)
  assert got[0] > 0.8 and got[1] < 0.2
  model, untyped = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval(), []
  assert model.config.id2label == {0: "unsupported", 1: "supported"}
  tokenizer = transformers.AutoTokenizer.from_pretrained(out)
  for document, sentence, score in list(zip(documents, sentences, got, strict=True))[:3]:
    rows = tokenizer(
      document, sentence, truncation="only_first", max_length=16, return_tensors="pt"
    )
    assert rows.token_type_ids.sum() > 0
    with torch.no_grad():
      wanted = model(**rows).logits.softmax(-1)[0, 1]
      rows["token_type_ids"].zero_()
      untyped.append(float(model(**rows).logits.softmax(-1)[0, 1]))
    assert score == pytest.approx(float(wanted), abs=1e-4)
  assert np.abs(got[:3] - untyped).max() > 1e-3, "the types of the tokens matter"


def test_what_does_not_fit_is_not_trained_on(folder):
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  sizes = tool.bert.BertConfig.from_dict(tool.checkpoints.read_json(folder / "config.json"))
  claim = tool.training_claims.Claim
  own = [claim("it closed .", True, "x"), claim("it " * 20, False, "x")]
  rows = tool.encode(tokenizer, sizes, {"mill " * 20: own})
  assert [(len(ids), supported) for ids, supported, _ in rows] == [(16, True)]


def test_a_folder_that_is_there_is_refused_first(config, tmp_path):
  with pytest.raises(UserError, match="--out=FOLDER is missing"):
    tool.main(config, None)
  with pytest.raises(UserError, match="exists; name a folder that does not"):
    tool.main(config, str(tmp_path))
  config.encoder.path = str(tmp_path)
  with pytest.raises(UserError, match=r"holds no model\.safetensors"):
    tool.main(config, str(tmp_path / "new"))
  roberta = tmp_path / "roberta"
  roberta.mkdir()
  (roberta / "config.json").write_text('{"model_type": "roberta"}')
  for name in ("model.safetensors", "tokenizer.json"):
    (roberta / name).write_bytes(b"")
  config.encoder.path = str(roberta)
  with pytest.raises(UserError, match="is a roberta model; give a BERT"):
    tool.main(config, str(tmp_path / "new"))
  assert not (tmp_path / "new").exists()


def test_a_fit_that_cannot_be_used_leaves_nothing(config, tmp_path):
  config.data.epochs, config.optimizer.learning_rate = 1, 1e30
  with pytest.raises(UserError, match="lower config.optimizer.learning_rate"):
    tool.main(config, str(tmp_path / "new"))
  with open(tmp_path / "begin.tsv", "w") as file:
    file.write("knowledge\tresponse\tbegin_label\n")
    for i in range(40):
      file.write(f"mill {i} closed .\t{'it ' * 20}{i}\tFully attributable\n")
  (tmp_path / "begin").mkdir()
  (tmp_path / "begin.tsv").rename(tmp_path / "begin/rows.tsv")
  config.data.update({"path": str(tmp_path), "claims": 1})
  with pytest.raises(UserError, match="no sentence of .* fits into 16 tokens"):
    tool.main(config, str(tmp_path / "new"))
  assert {p.name for p in tmp_path.iterdir()} == {"begin"}

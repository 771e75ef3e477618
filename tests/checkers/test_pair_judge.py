"""The judge of whole answers against whole-prompt passes in torch, and what it refuses."""

import json
import shutil

import numpy as np
import pytest
import tiny_checkpoint
import torch
from tiny_checkpoints import spreading
from transformers import AutoModelForCausalLM, AutoTokenizer

from asc_jax.checkers import pair_judge
from asc_jax.checkers.pair_judge import Shown
from asc_jax.types import Passage, UserError

RUBRIC = "Q {question} P {passages}\nfirst {first}\nsecond {second}\nA, B or C?"
PASSAGES = (Passage("Mill", "The mill closed in 1932."), Passage("", "It stood by the river."))
DOCUMENT = "Mill\nThe mill closed in 1932.\n\nIt stood by the river."
ANSWERS = ("It closed in 1932.", "It burned.", "{first} is no field here.", "")


PAIRS = [
  Shown(question, PASSAGES, first, second)
  for question in ("Why?", "When {second}?")
  for first in ANSWERS
  for second in ANSWERS
]


def prompt_ids(tokenizer, pair):
  text = f"Q {pair.question} P {DOCUMENT}\nfirst {pair.first}\nsecond {pair.second}\nA, B or C?"
  return tokenizer.apply_chat_template(
    [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
  )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  """A random decoder whose verdicts differ from pair to pair."""
  folder = tiny_checkpoint.write(tmp_path_factory.mktemp("judge"))
  model = AutoModelForCausalLM.from_pretrained(folder).eval()
  tokenizer = AutoTokenizer.from_pretrained(folder)
  with torch.no_grad():
    states = [
      model(torch.tensor([prompt_ids(tokenizer, pair)]), output_hidden_states=True)
      for pair in PAIRS
    ]
    direction = spreading(np.stack([s.hidden_states[-1][0, -1].numpy() for s in states]))
    for letter, sign in (("A", 1), ("B", -1)):
      model.lm_head.weight[tokenizer.convert_tokens_to_ids(letter)] = sign * direction
  model.save_pretrained(folder)
  (folder / "rubric.txt").write_text(RUBRIC + "\n")
  return folder, model, tokenizer


def torch_scores(model, tokenizer, pair):
  """log P(A), log P(B), log P(C) up to a constant, from the whole prompt."""
  with torch.no_grad():
    logits = model(torch.tensor([prompt_ids(tokenizer, pair)])).logits[0, -1].double()
  words = [tokenizer.decode([i]).strip().lower() for i in range(len(tokenizer))]
  return [
    torch.logsumexp(logits[[i for i, w in enumerate(words) if w == letter]], 0).item()
    for letter in "abc"
  ]


def test_verdicts_are_those_of_whole_prompts(tiny):
  folder, model, tokenizer = tiny
  (judge,) = pair_judge.load(str(folder), [str(folder / "rubric.txt")])
  assert judge.rubric.name == "rubric" and len(judge.weights_hash) == 16
  wanted = np.array([torch_scores(model, tokenizer, pair) for pair in PAIRS])
  verdicts = judge.compare(PAIRS)
  assert verdicts == [("first", "second", "tie")[i] for i in wanted.argmax(axis=1)]
  assert {"first", "second"} <= set(verdicts)
  lefts = [f"Q {pair.question} P {DOCUMENT}\nfirst " for pair in PAIRS]
  rights = [f"{pair.first}\nsecond {pair.second}\nA, B or C?" for pair in PAIRS]
  found = np.stack(judge.read(lefts, rights))
  centred = [scores - scores.mean(axis=1, keepdims=True) for scores in (found, wanted)]
  np.testing.assert_allclose(*centred, atol=1e-4)


def test_answers_that_do_not_fit_the_models_own_window_are_not_judged(tiny, tmp_path):
  folder = shutil.copytree(tiny[0], tmp_path / "short")
  raw = json.loads((folder / "config.json").read_text())
  (folder / "config.json").write_text(json.dumps(raw | {"max_position_embeddings": 256}))
  (judge,) = pair_judge.load(str(folder), [str(folder / "rubric.txt")])
  long, short = Shown("Why?", PASSAGES, "x" * 300, "y"), Shown("Why?", PASSAGES, "x", "y")
  assert judge.compare([long, short])[0] is None
  assert judge.compare([long, short])[1] is not None


def test_what_is_no_rubric_or_judge_is_refused(tiny, tmp_path, monkeypatch):
  folder = tiny[0]
  monkeypatch.setattr(pair_judge.checkpoints, "load", lambda *_, **__: pytest.fail("was loaded"))
  with pytest.raises(UserError, match="--rubrics: there is no file plane"):
    pair_judge.load(str(folder), ["plain", "plane"])
  for text in ("{question} {passages} {first}", "{first} {question} {passages} {second}"):
    (tmp_path / "r.txt").write_text(text)
    with pytest.raises(UserError, match="once each"):
      pair_judge.load(str(folder), [str(tmp_path / "r.txt")])


def test_the_packaged_rubrics_are_whole_and_share_the_weights(tiny):
  judges = pair_judge.load(str(tiny[0]), pair_judge.rubrics())
  assert [judge.rubric.name for judge in judges] == ["faithful", "plain", "strict"]
  assert len({judge.weights_hash for judge in judges}) == 3
  assert len({id(judge._state) for judge in judges}) == 1
  for _, head, tail in (judge.rubric for judge in judges):
    assert "{passages}" in head and "{first}" not in head
    assert tail.index("{first}") < tail.index("{second}") < tail.index("A, B, or C")

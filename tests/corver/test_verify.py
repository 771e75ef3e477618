"""Levels, and the three rules of what is looked up."""

import numpy as np
import pytest

from asc_jax import config as config_lib
from asc_jax.corver import triplets, verify
from asc_jax.corver.index import Count
from asc_jax.corver.triplets import Triplet
from asc_jax.corver.verify import CorpusVerifier, parse_levels
from asc_jax.types import Example, Passage, UserError

FOUR = parse_levels("four_level")


def test_the_public_code_s_levels():
  expected = {0: -0.3, 1: -0.1, 4: -0.1, 5: 0.0, 19: 0.0, 20: 0.1, 10**9: 0.1}
  assert {count: FOUR.rewards[FOUR.level(count)] for count in expected} == expected


@pytest.mark.parametrize(
  ("text", "starts", "rewards"),
  [
    ("0:-1,2:1", (0, 2), (-1.0, 1.0)),
    ("four_level=0:-0.2,1:-0.1,5:0,20:0.1", (0, 1, 5, 20), (-0.2, -0.1, 0.0, 0.1)),
    ("three_level=0:-0.2,3:0,30:0.2", (0, 3, 30), (-0.2, 0.0, 0.2)),
  ],
)
def test_levels_are_one_flag(text, starts, rewards):
  assert parse_levels(text) == verify.Levels(starts, rewards)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("three_level", "three_level needs explicit values"),
    ("three_level=0:1,2:3", "has 2 levels, not 3"),
    ("four_levels", "did you mean four_level"),
    ("1:0,5:1", "do not rise from 0"),
    ("0:0,5:1,5:2", "do not rise from 0"),
    ("0:0,five:1", "not a list of count:reward"),
    ("0:0:1", "not a list of count:reward"),
    ("0:0,5:nan", "not a list of count:reward"),
    ("", "not a list of count:reward"),
    ("low", "is count:reward pairs or one of"),
  ],
)
def test_levels_that_are_refused(text, message):
  with pytest.raises(UserError, match=message):
    parse_levels(text)


FACTS = {
  "rare": [
    Triplet("It", "is", "Oslo"),
    Triplet("Ada", "lived in", "Oslo"),
    Triplet("Ada", "", "Ulm"),
  ],
  "short": [Triplet("Oslo", "is", "oslo"), Triplet("Ada", "", "Ulm")],
  "unheard": [Triplet("Ada", "painted", "Ulm")],
  "nothing": [],
}
COUNTS = {
  ("Ada", "Oslo"): 7,
  ("Ada", "Ulm"): 3,
  ("Ada", "Oslo", "lived"): 7,
  ("Ada", "Ulm", "painted"): 0,
}


def verifier(rule, asked=None):
  def counts(queries):
    if asked is not None:
      asked.append(queries)
    return [Count(COUNTS[query], len(query) == 3) for query in queries]

  return CorpusVerifier(
    counts, lambda sentences: [FACTS[s] for s in sentences], FOUR, rule=rule, no_query=0.05
  )


@pytest.mark.parametrize(
  ("rule", "expected"),
  [
    # The first valid triplet decides, even where it leaves fewer than two words.
    ("first_valid", {"rare": (0.0, 7), "short": (0.05, None), "unheard": (-0.1, 3)}),
    ("min", {"rare": (-0.1, 3), "short": (-0.1, 3), "unheard": (-0.1, 3)}),
    ("relcheck", {"rare": (0.0, 7), "short": (0.05, None), "unheard": (-0.3, 3)}),
  ],
)
def test_rules(rule, expected):
  sentences = [*expected, "nothing", "rare"]
  found = verifier(rule)(sentences)
  got = {s: (v.reward, v.occurrences) for s, v in zip(sentences, found, strict=True)}
  assert got == {**expected, "nothing": (0.05, None)}
  assert found[0] == found[-1]


def test_a_batch_is_one_look_up_of_distinct_queries():
  asked = []
  verifier("relcheck", asked)(["rare", "unheard", "rare", "nothing"])
  assert asked == [
    [("Ada", "Oslo"), ("Ada", "Oslo", "lived"), ("Ada", "Ulm"), ("Ada", "Ulm", "painted")]
  ]


def test_the_lowest_level_is_not_demoted_below():
  low = CorpusVerifier(
    lambda queries: [Count(0, False)] * len(queries), triplets.by_rules, FOUR, rule="relcheck"
  )
  assert [v.reward for v in low(["Ada painted Ulm."])] == [-0.3]


def test_config_fields_reach_the_verifier(tmp_path):
  from asc_jax.corver import build

  config = config_lib.default_config().corver
  with pytest.raises(UserError, match=r"config\.corver\.index is not set"):
    verify.from_config(config)
  (tmp_path / "d.txt").write_text("ada visited ulm\n" * 2)
  build.build([str(tmp_path / "d.txt")], tmp_path / "index")
  config.index = str(tmp_path / "index")
  sentences = ["Ada visited Ulm."]
  assert [v.reward for v in verify.from_config(config)(sentences)] == [-0.3]
  config.fold_case, config.levels = True, "0:-1,2:0.5"
  assert [v.reward for v in verify.from_config(config)(sentences)] == [0.5]
  config.extractor = "a model"
  (tmp_path / "prompt.txt").write_text("Facts of {}?")
  config.extractor_prompt = str(tmp_path / "prompt.txt")

  def generate(prompts):
    assert prompts == ["Facts of Ada visited Ulm.?"]
    return ['[["Ada", "visited", "Oslo"]]']

  (verdict,) = verify.from_config(config, generate)(sentences)
  assert verdict == verify.Verdict(-1.0, Triplet("Ada", "visited", "Oslo"), ("Ada", "Oslo"), 0)
  config.extractor_prompt = str(tmp_path / "none.txt")
  with pytest.raises(UserError, match="extractor_prompt"):
    verify.from_config(config, generate)


def test_a_checker_judges_by_the_passages_of_each_question():
  asked = []

  def score(documents, sentences):
    asked.append((documents, sentences))
    return np.array([0.9, 0.5, np.nan])

  passages = (Passage("", "Oslo is in Norway."),)
  own = Example("a", "c", "?", passages)
  bare = Example("b", "c", "?")
  verifier = verify.CheckerVerifier(score, 0.5)
  found = verifier(["One.", "Two.", "Three.", "Four."], [own, bare, own, own])
  assert [v.reward for v in found] == [1.0, 0.0, -1.0, 0.0]
  assert asked == [(["Oslo is in Norway."] * 3, ["One.", "Three.", "Four."])]
  assert [v.reward for v in verifier(["Two."], [bare])] == [0.0]

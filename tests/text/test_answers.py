"""ALCE's normalisation and exact match, against its published definition."""

import json
import re
import string

import pytest

from asc_jax.text import answers


def published(text):
  """Lower-case, drop punctuation, drop a/an/the, squeeze spaces, step by step."""
  text = "".join(c for c in text.lower() if c not in set(string.punctuation))
  return re.sub(r"\s+", " ", re.sub(r"\b(?:a|an|the)\b", " ", text)).strip()


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("The Eiffel Tower", "eiffel tower"),
    ("  An  apple-a-day\n(the rule) ", "appleaday rule"),
    ("A.B. & the C", "ab c"),
    ("Theatre", "theatre"),
    ("the", ""),
  ],
)
def test_normalise(text, expected):
  assert answers.normalise(text) == expected == published(text)


def test_exact_match_is_the_mean_over_sub_questions():
  answer = "The lift opened in May 1904; the bridge, later."
  assert (
    answers.asqa_exact_match(answer, [("1904", "4 May 1904"), ("1911",), ("May 1904",)]) == 2 / 3
  )
  assert answers.asqa_exact_match(answer, [("190",)]) == 1.0  # a substring, as in ALCE
  assert answers.asqa_exact_match("", [("1904",), ("1911",)]) == 0.0
  assert answers.asqa_exact_match(answer, [("The",), ("1904",)]) == 0.5
  assert answers.asqa_exact_match(answer, []) is None


def test_alias_match_takes_whole_words():
  assert answers.alias_match("It was The Fab-Four!", ["Beatles", "fabfour"])
  assert not answers.alias_match("Beatlesque", ["Beatles"])
  assert not answers.alias_match("Anything", ["the", ""])
  assert not answers.alias_match("Anything", [])


def test_reference_answers_hold_their_short_answers(shared):
  rows = json.loads((shared / "asqa/ASQA_dev_subset.json").read_text())["dev"].values()
  found = [
    answers.asqa_exact_match(a["long_answer"], [q["short_answers"] for q in row["qa_pairs"]])
    for row in rows
    for a in row["annotations"]
  ]
  assert len(found) == 2 * len(rows)
  assert 0.8 < sum(found) / len(found) < 1.0  # annotators were asked to cover all of them


def test_normalise_equals_the_definition_on_public_text(shared):
  lines = (shared / "popqa/flashrag_test_subsample.jsonl").read_text().splitlines()
  aliases = [alias for line in lines for alias in json.loads(line)["golden_answers"]]
  assert len(aliases) > 800
  assert all(answers.normalise(alias) == published(alias) for alias in aliases)

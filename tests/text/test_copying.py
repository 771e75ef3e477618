"""Copied words against a plain loop, the stated normalisation, and the sentence rule."""

import json
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_jax.text import copying, sentences

PASSAGES = [
  "The red bridge over the river was opened by the mayor in May 1932. It cost $1,250.5 then.",
  "In May 1932 the harbour froze, and it didn't thaw before June.",
]


def slow_mask(text, passages, n):
  """Every run of n words against every run of every passage."""
  own = copying.words(text)[0]
  mask = [False] * len(own)
  for i in range(len(own) - n + 1):
    for passage in passages:
      other = copying.words(passage)[0]
      if any(own[i : i + n] == other[j : j + n] for j in range(len(other) - n + 1)):
        mask[i : i + n] = [True] * n
  return mask


WORDS = st.lists(st.sampled_from(["a", "b", "c", "B", "d."]), max_size=30).map(" ".join)


@given(text=WORDS, passages=st.lists(WORDS, max_size=4), n=st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_the_mask_equals_a_plain_loop(text, passages, n):
  mask = copying.copy_mask(text, passages, n)
  assert mask.dtype == bool
  assert mask.tolist() == slow_mask(text, passages, n)
  assert copying.copy_share(text, passages, n) == (np.mean(mask) if len(mask) else 0.0)


@given(text=WORDS, passages=st.lists(WORDS, max_size=4), n=st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_matches_are_the_mask_with_places(text, passages, n):
  own, spans = copying.words(text)
  mask, last = np.zeros(len(own), bool), 0
  for match in copying.matches(text, passages, n):
    assert last <= match.start < match.end
    last = match.end
    source = passages[match.passage][match.passage_start : match.passage_end]
    assert copying.words(text[match.start : match.end])[0] == copying.words(source)[0]
    mask |= [match.start <= start and end <= match.end for start, end in spans]
  assert mask.tolist() == copying.copy_mask(text, passages, n).tolist()


@given(st.text(max_size=80))
@settings(max_examples=400, deadline=None)
def test_words_have_places_whatever_the_text(text):
  own, spans = copying.words(text)
  assert len(own) == len(spans) and all(own)
  for start, end in spans:
    assert text[start].isalnum() and start < end


def test_no_match_crosses_from_a_passage_into_the_next():
  text = "It cost $1,250.5 then in May 1932 the harbour"
  assert copying.copy_mask(text, PASSAGES).tolist() == [False] * 4 + [True] * 5
  assert copying.copy_mask(text, [" ".join(PASSAGES)]).all()


@pytest.mark.parametrize(
  ("tokenised", "plain"),
  [
    ("he said `` go on '' , and left .", "He said “go on”, and left."),
    ("they do n't know it 's cold", "They don’t know it's cold"),
    ("the plan -LRB- in part -RRB- failed", "The plan (in part) failed"),
    ("an on - demand service", "an on-demand service"),
    ("it cost 1,250.5 dollars", "It cost **1,250.5** dollars."),
    ("it rose in 1932 and fell", "It rose in 1932 [2], and fell [1][3]."),
  ],
)
def test_tokenised_text_matches_running_text(tokenised, plain):
  assert copying.words(tokenised)[0] == copying.words(plain)[0]


def test_the_words_of_a_text():
  own, spans = copying.words("L'Orfeo did n't  cost £3.50, U.S. [4]")
  assert own == ["l'orfeo", "didn't", "cost", "3.50", "u", "s"]
  assert spans[1] == (8, 15)


def test_numbers_are_not_split():
  assert copying.copy_mask("3.5", ["3 5"], n=1).tolist() == [False]


def test_the_sentence_rule():
  text = (
    "The red bridge over the river is old. "  # 6 of 8 words copied
    "Some say that it cost $1,250.5 then. "  # none: a run of four words
    "It didn't thaw. "  # short, verbatim in the second passage
    "It didn't freeze. "  # short, not verbatim
    "[1]"
  )
  spans = [(0, 37), (38, 74), (75, 90), (91, 108), (109, 112)]
  shares = copying.sentence_shares(text, spans, PASSAGES)
  assert shares == [0.75, 0.0, 0.0, 0.0, 0.0]
  assert copying.sentences_copied(text, spans, PASSAGES, 0.5) == [True, False, True, False, False]
  assert copying.sentences_copied(text, spans, PASSAGES, 0.75) == [True, False, True, False, False]
  assert copying.sentences_copied(text, spans, PASSAGES, 0.76)[0] is False
  assert copying.count_short(text, spans) == 3


def test_a_run_over_two_sentences_counts_in_both():
  text = "It was in May 1932. It cost more."
  spans = sentences.split(text)
  assert copying.sentence_shares(text, spans, PASSAGES) == [3 / 5, 2 / 3]


def test_many_long_passages_are_quick():
  rng = np.random.default_rng(0)
  vocabulary = [f"w{i}" for i in range(3000)]
  passages = [" ".join(rng.choice(vocabulary, 2000)) for _ in range(40)]
  answers = [
    " ".join([*passages[i].split()[100:140], *rng.choice(vocabulary, 60)]) for i in range(40)
  ]
  start = time.process_time()
  for i in range(40):
    for answer in answers[:5]:
      copying.copy_mask(answer, passages[i : i + 5])
  assert time.process_time() - start < 10.0  # 200 answers; every pair of words would take minutes


def test_copied_sentences_hold_few_of_the_labelled_errors(shared):
  """RAGTruth, QA, test: about 9.1 % of authored and 0.9 % of copied sentences are erroneous."""
  lines = (shared / "ragtruth/source_info_qa_test.jsonl").read_text().splitlines()
  sources = {row["source_id"]: row["source_info"]["passages"] for row in map(json.loads, lines)}
  totals, wrong = [0, 0], [0, 0]
  for line in (shared / "ragtruth/response_qa_test.jsonl").read_text().splitlines():
    row = json.loads(line)
    text, labels = row["response"], row["labels"]
    passages = re.split(r"(?m)^passage \d+:", sources[row["source_id"]])
    spans = sentences.split(text)
    copied = copying.sentences_copied(text, spans, passages)
    for (start, end), kind in zip(spans, copied, strict=True):
      totals[kind] += 1
      wrong[kind] += any(max(start, s["start"]) < min(end, s["end"]) for s in labels)
  assert sum(totals) > 3000
  assert wrong[False] / totals[False] == pytest.approx(0.091, abs=0.005)
  assert wrong[True] / totals[True] == pytest.approx(0.009, abs=0.002)

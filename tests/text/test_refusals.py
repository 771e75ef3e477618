"""Refusal rules: plain cases, and precision and recall on hand-marked sentences."""

import hashlib
import json
import pathlib

import public_rows
import pytest

from asc_jax.text import refusals

GOLD = pathlib.Path(__file__).parent / "refusals_gold.json"


@pytest.mark.parametrize(
  "sentence",
  [
    "The passages do not contain information about the lift.",
    "However, passage 2 doesn’t mention it.",
    "None of the passages mention the date.",
    "It is not specified who built it. [1]",
    "There is no direct information about the lift in the given context.",
    "Based on the given context, it is not possible to determine the year.",
    "I cannot answer this question.",
    "I’m sorry, but I can’t answer that.",
    "Unable to answer based on given passages.",
    "I don't know.",
    "From the context it is unclear when it opened.",
    "The answer cannot be determined.",
    "While rocks were used, the passages do not say when.",
    "The passages list the prices, but do not mention the fees.",
  ],
)
def test_refusals(sentence):
  assert refusals.is_refusal(sentence)


@pytest.mark.parametrize(
  "sentence",
  [
    "The cause is unknown.",
    "The lift does not contain any oil.",
    "He was unable to find work.",
    "The body cannot produce it.",
    "The lift opened in May, but the year is not mentioned.",
    "While there is no direct mention of the lift, it opened in May.",
    "If you are unable to delete the file, restart the machine.",
    "As of 2018, there were no evidence-based methods.",
    "Sorry, the lift is broken.",
    "",
  ],
)
def test_answers(sentence):
  assert not refusals.is_refusal(sentence)


def test_an_answer_declines_iff_every_sentence_does():
  assert refusals.declines("I cannot answer. The passages do not mention the lift.")
  assert not refusals.declines("The lift opened in 1904. The passages do not say who built it.")
  assert not refusals.declines("")
  assert not refusals.declines(" \n")


@pytest.mark.parametrize(
  ("from_ragtruth", "sentences", "precision", "recall"),
  [(True, 126, 0.96, 1.0), (False, 115, 0.95, 0.93)],
)
def test_hand_marked_sentences(shared, from_ragtruth, sentences, precision, recall):
  rows = [
    r for r in json.loads(GOLD.read_text()) if r["file"].startswith("ragtruth") == from_ragtruth
  ]
  assert len(rows) == sentences
  pairs = []
  for row in rows:
    sentence = public_rows.text(shared, row)[row["start"] : row["end"]]
    assert hashlib.sha256(sentence.encode()).hexdigest() == row["sha256"]
    pairs.append((refusals.is_refusal(sentence), row["refusal"]))
  hits = pairs.count((True, True))
  assert hits / (hits + pairs.count((True, False))) >= precision
  assert hits / (hits + pairs.count((False, True))) >= recall

"""Metrics against a table worked out by hand: six answers, fifteen sentences."""

import jax.numpy as jnp
import numpy as np
import pytest
from synthetic_records import record, sentence

from asc_jax.evaluation import metrics, tables

INSTRUMENTS = {"bespoke": "b0", "gemma_judge": "g0", "minicheck_t5": "t0", "minilm": "m0"}


def judged(text, bespoke, judge, t5, minilm, **changes):
  scores = {"bespoke": bespoke, "gemma_judge": judge, "minicheck_t5": t5, "minilm": minilm}
  scores = {name: p if isinstance(p, tuple) else (p, None) for name, p in scores.items()}
  return sentence(text, scores=scores, **changes)


def worked_example():
  """Four questions, the first two with two answers; sentences 1 to 15 in order.

  | # | answer | copied | bespoke, by question | judge | T5 | minilm | credit | words |
  |---|--------|--------|----------------------|-------|----|--------|--------|-------|
  | 1 | q1.0 | no  | .9, .8 | .9 | .9 | .9 | 0 | 5 |
  | 2 | q1.0 | yes | .9, .1 | .9 | .9 | .9 | 0 | 6 |
  | 3 | q1.0 | no  | .4, .1 | .2 | .3 | .9 | 1 | 4 |
  | 4 | q1.1 | no  | .7, .2 | .6 | .5 | .2 | 0 | 5 |
  | 5 | q1.1 | no  | .8, .6 | .7 | .8 | .9 | 1 | 5 |
  | 6 | q2.0 | yes | .3, .1 | .1 | .2 | .1 | 0 | 5 |
  | 7 | q2.0 | yes | .9, .1 | .9 | .9 | .9 | 0 | 5 |
  | 8 | q2.1 | no  | .9, .1 | –  | .9 | .9 | 1 | 2 |
  | 9 | q2.1 | no  | .9, .1 | .9 | .9 | .9 | 1 | 5 |
  | 10 | q3.0 | no | .1, .1 | .1 | .1 | .1 | 0 | 7 (declines) |
  | 11 | q3.0 | no | .2, .1 | .4 | .1 | .1 | 0 | 6 (declines) |
  | 12 | q4.0 | no | .6, .5 | .8 | .6 | .9 | 1 | 5 |
  | 13 | q4.0 | no | .5, .1 | .8 | .6 | .9 | 1 | 5 |
  | 14 | q4.0 | yes | .6, .1 | .8 | .6 | .9 | 0 | 5 |
  | 15 | q4.0 | no | .6, .9 | .3 | .2 | .1 | 0 | 3 |
  """
  both = {"instruments": INSTRUMENTS}
  return [
    record(
      "q1",
      [
        judged("The bridge is very old.", (0.9, 0.8), 0.9, 0.9, 0.9, credit=0),
        judged("The old bridge opened in 1932.", (0.9, 0.1), 0.9, 0.9, 0.9, copied=True, credit=0),
        judged("Nine people built it.", (0.4, 0.1), 0.2, 0.3, 0.9, credit=1),
      ],
      copy=6 / 15,
      em=0.5,
      **both,
    ),
    record(
      "q1",
      [
        judged("Cars have crossed since then.", (0.7, 0.2), 0.6, 0.5, 0.2, credit=0),
        judged("It has stood many years.", (0.8, 0.6), 0.7, 0.8, 0.9, credit=1),
      ],
      answer_index=1,
      em=1.0,
      **both,
    ),
    record(
      "q2",
      [
        judged("It closed down in May.", (0.3, 0.1), 0.1, 0.2, 0.1, copied=True, credit=0),
        judged("It opened in 1932 again.", (0.9, 0.1), 0.9, 0.9, 0.9, copied=True, credit=0),
      ],
      copy=1.0,
      **both,
    ),
    record(
      "q2",
      [
        judged("Yes indeed.", (0.9, 0.1), None, 0.9, 0.9, credit=1),
        judged("Traffic uses it every day.", (0.9, 0.1), 0.9, 0.9, 0.9, credit=1),
      ],
      answer_index=1,
      **both,
    ),
    record(
      "q3",
      [
        judged("The passages do not say anything here.", (0.1, 0.1), 0.1, 0.1, 0.1, credit=0),
        judged("I cannot answer the question asked.", (0.2, 0.1), 0.4, 0.1, 0.1, credit=0),
      ],
      declines=True,
      em=0.0,
      **both,
    ),
    record(
      "q4",
      [
        judged("Its opening came in 1932.", (0.6, 0.5), 0.8, 0.6, 0.9, credit=1),
        judged("Traffic began that same year.", (0.5, 0.1), 0.8, 0.6, 0.9, credit=1),
        judged("It opened in 1932 to.", (0.6, 0.1), 0.8, 0.6, 0.9, copied=True, credit=0),
        judged("Bridges carry traffic.", (0.6, 0.9), 0.3, 0.2, 0.1, credit=0),
      ],
      copy=5 / 18,
      **both,
    ),
  ]


# Authored: 1 3 4 5 8 9 10 11 12 13 15 (eleven); words 15, 10, 10, 7, 13, 18 = 73.
EXPECTED = {
  "Err": 100 * 4 / 10,  # judged: 3, 10, 11, 15 of eleven less the unscored 8
  "T5": 100 * 6 / 11,  # 1 5 8 9 12 13; 4 scores exactly 0.5, which is not above it
  "AS": None,
  "Supp": 6 / 6,
  "Copy": 100 * (6 + 10 + 5) / 73,
  "Words": 73 / 6,
  "Vac": 100 * 3 / 7,  # bespoke supports 1 4 5 8 9 12 15, and by the question 1 5 15
  "Ref": 100 * 1 / 6,
  "EM": 100 * (0.5 + 1.0 + 0.0) / 3,
  "R": 100 * (2 / 3 + 2 / 2 + 1 / 2 + 2 / 2 + 0 / 2 + 3 / 4) / 6,
  "<5 words": 100 * 3 / 15,  # 3, 8, 15
  "Credit [minilm]": 100 * 6 / 15,
  "R [minilm]": 100 * (3 / 3 + 1 / 2 + 1 / 2 + 2 / 2 + 0 / 2 + 3 / 4) / 6,
  "Err [minilm]": 100 * 4 / 11,  # 4, 10, 11, 15
  "Supp [minilm]": 7 / 6,  # 1 3 5 8 9 12 13
  "Supp [gemma_judge]": None,  # 8 was not scored: never partial
}


def test_hand_worked_example():
  records = worked_example()
  assert sum(len(r["sentences"]) for r in records) == 15
  summary = metrics.summarise(records)
  assert {name: summary.values[name] for name in EXPECTED} == pytest.approx(EXPECTED)
  assert (summary.questions, summary.answers, summary.sentences) == (4, 6, 15)
  assert summary.unscored == {"gemma_judge": 1}


def test_pseudo_sentences_leave_every_rate_but_silence_earns_no_reward():
  records = worked_example()
  silent = record("q5", [sentence(" ", credit=0)], instruments=INSTRUMENTS, words=0)
  values = metrics.summarise([*records, silent]).values
  for name in ("Err", "T5", "Vac", "Credit [minilm]", "<5 words", "Copy"):
    assert values[name] == pytest.approx(EXPECTED[name])
  assert values["R"] == pytest.approx(EXPECTED["R"] * 6 / 7)
  assert values["Words"] == pytest.approx(73 / 7)


def test_zero_denominators_and_absent_instruments_are_none():
  copied = sentence("It opened in 1932 again.", copied=True, scores={"minilm": (0.9, 0.1)})
  values = metrics.summarise([record("q1", [copied])]).values
  assert values["Err [minilm]"] is None  # nothing authored
  assert values["Supp [minilm]"] == 0
  assert values["R [minilm]"] == 100
  for name in ("Err", "T5", "AS", "Supp", "Vac", "R", "EM"):
    assert values[name] is None


def test_a_score_at_a_threshold_that_float32_does_not_hold_is_not_above_it():
  at = float(np.float32(0.8))
  assert at > 0.8 and not jnp.float32(at) > 0.8  # the update compares the latter
  edge = sentence("It opened in 1932.", scores={"minilm": (at, at)})
  edge["scores"]["minilm"]["threshold"] = 0.8
  values = metrics.summarise([record("q1", [edge])]).values
  assert values["R [minilm]"] == 0 and values["Err [minilm]"] == 100


def test_reward_is_absent_where_copied_sentences_were_skipped():
  authored = sentence("It opened in 1932.", scores={"minilm": (0.9, 0.1)})
  skipped = sentence("The old bridge opened.", copied=True, scores={"minilm": (None, None)})
  values = metrics.summarise([record("q1", [authored, skipped])]).values
  assert values["R [minilm]"] is None
  assert values["Err [minilm]"] == 0


def test_a_stand_in_never_takes_a_papers_column():
  only = record("q1", [sentence("It opened.", scores={"minilm": (0.9, 0.1)})])
  table = metrics.columns([only])
  assert all(c.instrument != "minilm" for c in metrics.PAPER)
  assert [c.name for c in table if c.instrument == "minilm"] == [
    "Credit [minilm]",
    "R [minilm]",
    "Err [minilm]",
    "Supp [minilm]",
    "Vac [minilm]",
  ]


TABLE_1 = {  # facts.md: R, Copy, Words, Vac, Ref, EM
  "base": (87.1, 38.8, 73.5, 21.5, 6.1, 45.5),
  "GRPO": (98.9, 72.8, 13.7, 18.1, 0.0, 27.6),
  "GRPO + KL": (92.3, 39.2, 60.0, 28.5, 14.7, 41.8),
  "copy penalty": (92.0, 11.8, 36.9, 67.4, 64.5, 20.2),
  "DPO": (94.6, 53.4, 55.7, 16.9, 1.7, 41.8),
  "DPO copy-matched": (90.4, 44.9, 59.7, 21.5, 6.1, 43.8),
}
FLAGS = {
  "base": (),
  "GRPO": ("Copy", "Words"),
  "GRPO + KL": ("Words", "Vac", "Ref"),
  "copy penalty": ("Words", "Vac", "Ref"),
  "DPO": ("Copy", "Words"),
  "DPO copy-matched": ("Copy", "Words"),
}


def summary_of(values):
  return metrics.Summary(1, 1, 1, values, metrics.PAPER, {}, {})


@pytest.mark.parametrize("method", TABLE_1)
def test_table_1_raises_exactly_the_papers_flags(method):
  rows = {
    name: summary_of(dict(zip(("R", "Copy", "Words", "Vac", "Ref", "EM"), row, strict=True)))
    for name, row in TABLE_1.items()
  }
  assert metrics.flags(rows["base"], rows[method]) == FLAGS[method]


def test_macro_mean_leaves_exact_match_to_the_corpora_that_have_it():
  mean = metrics.macro_mean(
    [summary_of({"Err": 5.0, "EM": 40.0}), summary_of({"Err": 2.0, "EM": None})]
  )
  assert (mean.values["Err"], mean.values["EM"]) == (3.5, 40.0)
  partial = metrics.macro_mean([summary_of({"Err": 5.0}), summary_of({"Err": None})])
  assert partial.values["Err"] is None


def test_terminal_table_prints_numbers_dashes_and_flags():
  base = worked_example()
  trained = [{**r, "words": r["words"] // 2} for r in base]
  text = tables.terminal({"base": metrics.summarise(base), "trained": metrics.summarise(trained)})
  lines = text.splitlines()
  assert lines[0].split() == ["base", "trained"]
  assert any(line.split() == ["Err", "%", "40.00", "40.00"] for line in lines)
  assert any(line.split() == ["Supp", "1.00", "1.00"] for line in lines)
  assert "AS" in next(line for line in lines if line.startswith(tables.DASH))
  assert "base: not scored by gemma_judge: 1 of 15 sentences" in lines
  assert lines[-1].startswith("trained: shortcut flags against base: ")
  assert "Words" in lines[-1]

"""The provenance study against shares and intervals worked out in a loop, and what it samples."""

import pathlib

import numpy as np
import pytest
import synthetic_records as synthetic

from asc_jax import config as config_lib
from asc_jax import evaluate
from asc_jax.evaluation import records
from asc_jax.tools import provenance_study
from asc_jax.types import UserError


def answers(corpus, kinds, run="base", step=0):
  """One answer a question; a letter a sentence: a, c authored and copied, capital if unsupported."""
  rows = []
  for i, letters in enumerate(kinds):
    sentences = [
      synthetic.sentence(
        f"Sentence {n} is here.",
        copied=letter.lower() == "c",
        scores={"minilm": (0.1 if letter.isupper() else 0.9, 0.0)},
      )
      for n, letter in enumerate(letters)
    ]
    rows.append(synthetic.record(f"q{i}", sentences, corpus=corpus, run=run, step=step))
  return rows


def write(folder, *sets):
  for i, rows in enumerate(sets):
    records.append(folder / "records" / rows[0]["corpus"] / f"{i}.jsonl", rows)
  return folder


def rows_of(printed):
  """{name: cells} of the printed table."""
  lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
  return {cells[0]: cells[1:] for cells in lines[1:]}


def run(**flags):
  defaults = {"workdir": None, "records": None, "models": None, "instruments": None}
  provenance_study.main(config_lib.default_config(), **{**defaults, "resamples": 50, **flags})


def test_shares_their_ratio_and_the_mean_by_hand(tmp_path, capsys):
  # 3 of 5 authored and 1 of 4 copied in the first; 1 of 2 and 1 of 4 in the second.
  first = answers("asqa", ["AAa", "Cc", "Aacc"])
  second = answers("eli5", ["Aa", "Cccc"])
  later = answers("asqa", ["AAAA", "CCCC", "A"], run="base", step=9)
  write(tmp_path / "base", first, second, later)
  run(records=str(tmp_path / "base"))
  assert rows_of(capsys.readouterr().out) == {
    "base, asqa, minilm": ["9", "60.0", "25.0", "2.4"],
    "base, eli5, minilm": ["6", "50.0", "25.0", "2.0"],
    "mean, minilm": ["15", "55.0", "25.0", "2.2"],  # (60 + 50) / 2 over 25
  }


def test_intervals_from_fifty_questions_on_hold_the_mean_over_models(tmp_path, capsys):
  rng = np.random.default_rng(0)
  sets = []
  for model in ("x", "y"):
    kinds = ["".join(rng.choice(list("AaCccc"), size=4)) for _ in range(60)]
    sets.append(answers("asqa", kinds, run=model))
  write(tmp_path, *sets)
  found = dict(provenance_study.study(provenance_study.read([str(tmp_path)]), 400))
  assert set(found) == {"x, asqa, minilm", "y, asqa, minilm", "mean, minilm"}
  rng = np.random.default_rng(1)
  kinds = [
    [
      [(s["copied"], s["scores"]["minilm"]["supported"] < 0.5) for s in r["sentences"]]
      for r in rows
    ]
    for rows in sets
  ]
  draws = []
  for _ in range(400):
    chosen = rng.integers(0, 60, 60)
    shares = []
    for questions in kinds:
      drawn = [pair for i in chosen for pair in questions[i]]
      shares.append([np.mean([bad for copied, bad in drawn if copied == kind]) for kind in (0, 1)])
    authored, copied = np.mean(shares, axis=0)
    draws.append((authored, copied, authored / copied))
  expected = np.quantile(draws, [0.025, 0.975], axis=0).T
  spread = expected[:, 1] - expected[:, 0]
  got = np.array(found["mean, minilm"].bounds)
  assert (np.abs(got - expected) < 0.3 * spread[:, None]).all()
  alone = np.diff(found["x, asqa, minilm"].bounds[0])[0]
  assert got[0, 1] - got[0, 0] < 0.9 * alone  # a mean of two varies less


def test_the_rank_correlation_of_two_instruments_is_that_of_what_both_scored(tmp_path, capsys):
  rows = answers("asqa", ["Aac", "Ca"])
  for row in rows:
    row["instruments"]["judge"] = "2"
  pairs = [(0.1, 0.2), (0.4, 0.1), (0.9, 0.8), (0.6, None), (0.7, 0.9)]
  sentences = [sentence for row in rows for sentence in row["sentences"]]
  for sentence, (one, other) in zip(sentences, pairs, strict=True):
    sentence["scores"] = synthetic.sentence("", scores={"minilm": (one, 0.0)})["scores"]
    sentence["scores"]["judge"] = sentence["scores"]["minilm"] | {"supported": other}
  write(tmp_path, rows)
  run(records=str(tmp_path))
  # Ranks 1 2 4 3 and 2 1 3 4: 1 - 6 (1 + 1 + 1 + 1) / (4 x 15).
  assert capsys.readouterr().out.endswith("judge and minilm: 0.60 (4 sentences)\n")
  for row in rows:
    row["corpus"] = "eli5"
    for sentence in row["sentences"]:
      sentence["scores"]["judge"] = sentence["scores"]["minilm"]
  write(tmp_path, rows)
  run(records=str(tmp_path))
  assert capsys.readouterr().out.endswith("judge and minilm: 0.80 (9 sentences)\n")


def test_what_is_missing_is_one_line(tmp_path):
  with pytest.raises(UserError, match="give --workdir=DIR"):
    run()
  with pytest.raises(UserError, match="--records=, names none"):
    run(records=",")
  write(tmp_path / "later", answers("asqa", ["Aa"], step=3))
  with pytest.raises(UserError, match="no answer at step 0"):
    run(records=str(tmp_path / "later"))
  other = answers("asqa", ["Aa"])
  write(tmp_path / "a", other)
  for row in other:
    row["instruments"] = {"lexical": "1"}
  write(tmp_path / "b", other)
  with pytest.raises(UserError, match="no instrument scored every answer"):
    run(records=f"{tmp_path}/a,{tmp_path}/b")


def test_one_command_evaluates_the_base_model_and_reads_what_it_wrote(
  tmp_path, monkeypatch, capsys
):
  asked = []

  def evaluating(config, workdir, models, instruments):
    asked.append((models, instruments))
    write(pathlib.Path(workdir), answers("asqa", ["AAa", "Cc"]))

  monkeypatch.setattr(evaluate, "main", evaluating)
  run(workdir=str(tmp_path / "out"), instruments="minilm")
  assert asked == [("base", "minilm")]
  assert rows_of(capsys.readouterr().out) == {"out, asqa, minilm": ["5", "66.7", "50.0", "1.3"]}

"""The judging command with a judge that loves length: rates by hand, resume, what is refused."""

import json
import random

import pytest
import synthetic_records as synthetic

from asc_jax.checkers import pair_judge
from asc_jax.evaluation import pairwise, records, runs
from asc_jax.tools import judge as command
from asc_jax.types import UserError


class Lengthy:
  """Prefers the longer answer, and the first where the difference is below four characters."""

  weights_hash, rubric = "f" * 16, pair_judge.Rubric("plain", "", "")

  def __init__(self):
    self.asked = 0

  def compare(self, pairs):
    self.asked += len(pairs)
    return [
      "first" if len(p.first) > len(p.second) - 4 else "second" if p.second else "tie"
      for p in pairs
    ]


@pytest.fixture
def judge(monkeypatch):
  made = Lengthy()
  monkeypatch.setattr(pair_judge, "load", lambda path, names, **_: [made for _ in names])
  return made


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
  """A workdir of asc_jax.evaluate: base and one method on two corpora."""
  folder = tmp_path_factory.mktemp("evaluated")
  for run, step, copying in (("base", 0, 0.4), ("mine", 8, 0.1)):
    for corpus in ("asqa", "clapnq"):
      rows = synthetic.realistic(
        random.Random(step), 9, run=run, step=step, copying=copying, corpus=corpus
      )
      records.append(folder / f"records/{corpus}/{run}_{step:06d}.jsonl", rows)
  return folder


def run(evaluated, out, **changes):
  flags = {"rubrics": "plain", "probes": True, "questions": None, "seed": 0}
  command.main([str(evaluated)], "some/judge", out=str(out), **{**flags, **changes})
  return runs.read_lines(out, pairwise.problem)


def test_rates_are_those_of_the_judge_by_hand(evaluated, judge, tmp_path, capsys):
  rows = run(evaluated, tmp_path / "j.jsonl")
  wins = [row for row in rows if row["task"] == "win"]
  assert len(wins) == 18 and {(r["a"], r["b"]) for r in wins} == {("asc", "base")}
  assert {r["judge"] for r in rows} == {"judge ffffffff"}
  texts = {
    (r["run"], r["corpus"], r["id"]): r["answer"]
    for path in sorted((evaluated / "records").rglob("*.jsonl"))
    for r in records.read(path)
  }
  score = 0.0
  for row in wins:
    ours, base = (len(texts[name, row["corpus"], row["id"]]) for name in ("mine", "base"))
    score += 0.5 if abs(ours - base) < 4 else float(ours > base)
  assert pairwise.win_rate(wins).rate == pytest.approx(100 * score / 18)
  shown = capsys.readouterr().out
  assert f"{100 * score / 18:.1f}" in shown and "judge ffffffff, plain" in shown
  padded = [row for row in rows if row["task"] == "padded"]
  assert padded and pairwise.win_rate(padded).rate == 100


def test_probes_show_the_answer_and_what_was_made_of_it(evaluated):
  base, _ = runs.split(runs.load_all([str(evaluated)]))
  answers = {(r["corpus"], r["id"]): r for r in base.all()}
  found = pairwise.probes(base)
  assert {pair.task for pair in found} == {"copied", "padded", "planted"}
  for pair in found:
    record = answers[pair.corpus, pair.id]
    assert not record["declines"] and pair.question == record["question"]
    place = 0 if pair.task == "planted" else 1
    assert pair.texts[place] == record["answer"] != pair.texts[1 - place]
    assert ("base", pair.task) == (pair.a, pair.b)[:: 1 if place == 0 else -1]
  assert pairwise.probes(base) == found
  assert pairwise.probes(base, seed=1) != found


def test_a_killed_command_goes_on_to_the_same_bytes(evaluated, judge, tmp_path):
  path = tmp_path / "j.jsonl"
  run(evaluated, path)
  whole, asked = path.read_bytes(), judge.asked
  lines = whole.splitlines(keepends=True)
  path.write_bytes(b"".join(lines[:7]) + lines[7][:20])
  run(evaluated, path)
  assert path.read_bytes() == whole
  assert judge.asked == 2 * asked - 2 * 7


def test_the_first_questions_of_each_corpus(evaluated, judge, tmp_path):
  rows = run(evaluated, tmp_path / "j.jsonl", questions=2, probes=False)
  assert [(r["corpus"], r["id"]) for r in rows] == [
    (c, f"{c}-{i}") for c in ("asqa", "clapnq") for i in range(2)
  ]


def test_pairs_that_do_not_fit_are_left_out(evaluated, judge, tmp_path, monkeypatch):
  monkeypatch.setattr(judge, "compare", lambda pairs: [None] * len(pairs), raising=False)
  with pytest.raises(UserError, match="too long"):
    run(evaluated, tmp_path / "j.jsonl")


def test_bad_input_is_refused(evaluated, tmp_path):
  with pytest.raises(UserError, match="--judge=MODEL is missing"):
    command.main([str(evaluated)], None, "plain", None, True, None, 0)
  records.append(tmp_path / "r.jsonl", synthetic.realistic(random.Random(0), 2))
  with pytest.raises(UserError, match="nothing to judge"):
    command.main([str(tmp_path / "r.jsonl")], "j", "plain", None, False, None, 0)
  with pytest.raises(UserError, match="--rubrics names none; there are faithful, plain, strict"):
    command.main([str(evaluated)], "j", ",", None, True, None, 0)
  with pytest.raises(UserError, match=r"--out=.*r\.jsonl cannot be written \(.*Not a directory\)"):
    command.main([str(evaluated)], "j", "plain", f"{tmp_path}/r.jsonl/x", True, None, 0)
  with pytest.raises(UserError, match="there is no file nope"):
    command.main([str(evaluated)], "j", "plain,nope", f"{tmp_path}/new/x", True, None, 0)
  assert not (tmp_path / "new").exists()
  (tmp_path / "j.jsonl").write_text(json.dumps({"judge": "x"}) + "\n")
  with pytest.raises(UserError, match=r"j\.jsonl:1: a is missing"):  # before weights load
    command.main([str(evaluated)], "j", "plain", f"{tmp_path}/j.jsonl", True, None, 0)
  with pytest.raises(UserError, match=r"j\.jsonl:1: a is missing"):
    command.judge_all([], Lengthy(), "j", tmp_path / "j.jsonl")

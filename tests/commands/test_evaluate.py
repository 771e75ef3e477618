"""The evaluation command with tiny models: what it writes, resumes, repeats and refuses."""

import filecmp
import json
import pathlib
import runpy
import shutil

import jax
import numpy as np
import pytest
import tiny_checkpoint

from asc_jax import checkers, evaluate, report
from asc_jax import config as config_lib
from asc_jax.checkers.base import Checker
from asc_jax.evaluation import metrics, records, runs
from asc_jax.models import checkpoints
from asc_jax.models.lora import LoraConfig
from asc_jax.rl import checkpointing
from asc_jax.types import UserError

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ("base_000000", "exported_000000", "mine_000003", "mine_000007")


class Letters(Checker):
  """An instrument of its own mind, with a threshold of its own."""

  name, weights_hash, threshold = "letters", "abc123", 0.4

  def _score(self, documents, sentences):
    return [(len(d) + 7 * len(s)) % 10 / 10 for d, s in zip(documents, sentences, strict=True)]


def load_letters(path):
  return Letters()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """A base model, a run with two checkpoints, an exported folder and a corpus of five questions."""
  folder = tmp_path_factory.mktemp("made")
  base = tiny_checkpoint.write(folder / "tiny")
  shutil.copytree(base, folder / "exported")
  state, _ = checkpoints.load(base, lora=LoraConfig(rank=2, alpha=8.0, targets=("q_proj",)))
  run = checkpointing.Checkpoints(folder / "mine", keep=2)
  for step in (3, 7):
    moved = jax.tree.map(lambda x, by=step: x + 0.1 * by, state.trainable())
    saved = {"model.lora.rank": 2, "model.lora.alpha": 8.0, "model.lora.targets": "q_proj"}
    config = {**config_lib.flatten(config_lib.default_config()), **saved}
    config |= {"model.path": str(base), "method": "grpo"}
    run.save(step, {"trainable": moved}, {"config": config})
  run.wait()
  lines = [
    {
      "id": str(i),
      "input": f"What did the lift bridge number {i} carry?",
      "passages": [{"title": "", "text": f"Bridge {i} carried {i} trains a day over the river."}],
      "output": [{"answer": "Trains." if i % 2 else ""}],
    }
    for i in range(5)
  ]
  (folder / "clapnq.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
  return folder


@pytest.fixture(autouse=True)
def letters(monkeypatch):
  monkeypatch.setitem(checkers.INSTRUMENTS, "letters", (__name__, "load_letters"))


def config_of(made, **changes):
  config = config_lib.default_config()
  fields = {
    "model.path": str(made / "tiny"),
    "data.instruction": "Answer.",
    "data.prompt_buckets": (512,),
    "data.passage_words": 20,
    "data.batch_size": 2,
    "rollout.max_tokens": 20,
    "checker.name": "lexical",
    "eval.corpus": "clapnq,quickstart",
    "eval.path": f"{made / 'clapnq.jsonl'},",
    "eval.split": "all",
    "eval.questions": 5,
    "eval.answers": 2,
    "eval.temperature": 1.0,
  }
  for name, value in (fields | changes).items():
    config_lib.assign(config, name, value)
  return config


def run(made, workdir, models=None, instruments="letters", **changes):
  models = models or ",".join(["base", f"{made}/exported", f"{made}/mine@3", f"{made}/mine"])
  evaluate.main(config_of(made, **changes), str(workdir), models, instruments)
  return workdir


@pytest.fixture(scope="module")
def alone(made, tmp_path_factory):
  """The workdir of an evaluation left alone."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(checkers.INSTRUMENTS, "letters", (__name__, "load_letters"))
    return run(made, tmp_path_factory.mktemp("alone"))


def same(left, right):
  """Whether two folders hold the same files, byte for byte."""
  compared = filecmp.dircmp(left, right)
  _, different, odd = filecmp.cmpfiles(left, right, compared.common_files, shallow=False)
  if compared.left_only or compared.right_only or different or odd:
    return False
  return all(same(left / name, right / name) for name in compared.common_dirs)


def test_a_file_a_model_and_corpus(alone):
  found = sorted(str(p.relative_to(alone)) for p in alone.rglob("*.*"))
  wanted = [f"records/{c}/{m}.jsonl" for c in ("clapnq", "quickstart") for m in MODELS]
  assert found == ["evaluation.json", *wanted]


def test_a_record_says_who_answered_how_and_who_scored(alone):
  rows = records.read(alone / "records/clapnq/mine_000007.jsonl")
  assert len(rows) == 10 and [r["answer_index"] for r in rows] == [0, 1] * 5
  row = rows[0]
  assert (row["run"], row["step"], row["method"]) == ("mine", 7, "grpo")
  sampling = {"answers": 2, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_tokens": 20}
  assert row["sampling"] == {**sampling, "seed": 0}
  assert row["instruments"].keys() == {"lexical", "letters"}
  assert row["instruments"]["letters"] == "abc123" and row["reward_instrument"] == "lexical"
  row, sentence = next(
    (r, s)
    for r in rows
    for s in r["sentences"]
    if any(c.isalnum() for c in r["answer"][s["start"] : s["end"]])
  )
  assert sentence["scores"]["letters"]["threshold"] == 0.4
  assert sentence["scores"]["lexical"]["threshold"] == 0.5
  assert sentence["advantage"] is not None
  document = "".join(p["text"] for p in row["passages"])
  text = row["answer"][sentence["start"] : sentence["end"]]  # with letters, so that it is scored
  wanted = (len(document) + 7 * len(text)) % 10 / 10
  assert sentence["scores"]["letters"]["supported"] == pytest.approx(wanted)


def test_models_differ_where_their_weights_do(alone):
  def answers(name):
    return [r["answer"] for r in records.read(alone / f"records/clapnq/{name}.jsonl")]

  base, exported, early, late = map(answers, MODELS)
  assert base == exported  # a copy
  assert len({tuple(base), tuple(early), tuple(late)}) == 3


def test_another_empty_workdir_gets_the_same_bytes(made, alone, tmp_path):
  assert same(alone, run(made, tmp_path / "again"))


@pytest.mark.parametrize("cut", ["nothing", "first line", "batch and a half", "all but a byte"])
def test_a_killed_evaluation_goes_on_to_the_same_bytes(made, alone, tmp_path, cut):
  """Killed within the seventh file of eight, whatever stands of it."""
  shutil.copytree(alone, tmp_path / "killed")
  files = sorted((tmp_path / "killed/records").rglob("*.jsonl"))
  lines = files[6].read_bytes().splitlines(keepends=True)
  kept = {
    "nothing": b"",
    "first line": lines[0][:50],
    "batch and a half": b"".join(lines[:6]) + lines[6][:-9],
    "all but a byte": b"".join(lines)[:-1],
  }
  files[6].with_suffix(".partial").write_bytes(kept[cut])
  for path in files[6:]:
    path.unlink()
  sampled = len(files[6:]) * 3 - {"batch and a half": 1, "all but a byte": 2}.get(cut, 0)
  calls = []
  with pytest.MonkeyPatch.context() as patch:
    score = Letters._score
    patch.setattr(Letters, "_score", lambda *a: calls.append(1) or score(*a))
    assert same(alone, run(made, tmp_path / "killed"))
  assert len(calls) == sampled  # once a batch that was not kept


def test_what_another_evaluation_left_half_done_is_not_taken(made, alone, tmp_path):
  (tmp_path / "records/clapnq").mkdir(parents=True)
  rows = records.read(alone / "records/clapnq/base_000000.jsonl")
  for row in rows:
    row["sampling"]["temperature"] = 0.5
  records.append(tmp_path / "records/clapnq/base_000000.partial", rows[:4])
  run(made, tmp_path, "base", **{"eval.corpus": "clapnq", "eval.path": f"{made}/clapnq.jsonl"})
  found = tmp_path / "records/clapnq/base_000000.jsonl"
  assert found.read_bytes() == (alone / "records/clapnq/base_000000.jsonl").read_bytes()


def test_greedy_single_answers_by_default_show_no_advantage(made, tmp_path):
  changes = {"eval.answers": 1, "eval.temperature": 0.0, "eval.questions": 2}
  run(made, tmp_path, "base", None, **changes)
  rows = records.read(tmp_path / "records/clapnq/base_000000.jsonl")
  assert len(rows) == 2
  assert {s["advantage"] for r in rows for s in r["sentences"]} == {None}


def test_the_independent_script_gets_the_same_numbers(alone):
  recompute = runpy.run_path(str(ROOT / "tests/evaluation/recompute.py"))["metrics"]
  for path in sorted((alone / "records").rglob("*.jsonl")):
    rows = records.read(path)
    found = recompute(rows, "letters")
    values = metrics.summarise(rows).values
    for name in ("Err", "Supp", "Vac", "R"):
      wanted = values[f"{name} [letters]"]
      assert found[name] == (None if wanted is None else pytest.approx(wanted))
    for name in ("Copy", "Words", "Ref"):
      assert found[name] == pytest.approx(values[name])


def test_the_report_takes_every_model(alone, tmp_path, capsys):
  base, settings = runs.split(runs.load_all([str(alone)]))
  assert list(base.records) == ["clapnq", "quickstart"]
  assert [s.label for s in settings] == ["exported", "grpo"]
  assert {r["step"] for r in settings[1].all()} == {7}
  report.main([str(alone)], str(tmp_path / "out"), None)
  shown = capsys.readouterr().out
  assert "letters" in shown and "abc123" in shown
  assert (tmp_path / "out/figure_3_letters.svg").exists()


def refused(match, *arguments, **changes):
  with pytest.raises(UserError, match=match) as caught:
    run(*arguments, **changes)
  assert "\n" not in str(caught.value)


def test_bad_input_is_refused_before_anything_is_written(made, tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoints, "load", lambda *_, **__: pytest.fail("weights were read"))
  out = tmp_path / "out"
  refused(
    "holds no complete checkpoint of step 4; complete steps: 3, 7", made, out, f"{made}/mine@4"
  )
  refused("nowhere", made, out, f"base,{made}/nowhere")
  refused("base@3 does not exist", made, out, "base@3")
  refused("base twice", made, out, "base,base")
  refused("names 2 corpora and config.eval.path 1", made, out, **{"eval.path": "x"})
  refused("config.eval.corpus=, names no corpus", made, out, **{"eval.corpus": ","})
  refused("none of", made, out, "base", "minichek")
  refused("lexical scores already", made, out, "base", "lexical")
  refused("clapnq twice", made, out, "base", **{
    "eval.corpus": "clapnq,clapnq", "eval.path": f"{made}/clapnq.jsonl,{made}/clapnq.jsonl",
  })  # fmt: skip
  refused("eval.questions=0", made, out, **{"eval.questions": 0})
  assert not out.exists()


def test_a_workdir_of_other_settings_is_refused(made, alone, tmp_path, monkeypatch):
  shutil.copytree(alone, tmp_path / "out")
  monkeypatch.setattr(checkpoints, "load", lambda *_, **__: pytest.fail("weights were read"))
  refused("eval.temperature: 1.0 -> 0.5", made, tmp_path / "out", **{"eval.temperature": 0.5})
  refused("--instruments: 'letters' -> None", made, tmp_path / "out", "base", None)
  for number, text in enumerate(("{oops", "[1]", '{"config": {}}')):
    (tmp_path / f"{number}").mkdir()
    (tmp_path / f"{number}/evaluation.json").write_text(text)
    refused(r"evaluation\.json is damaged", made, tmp_path / f"{number}")
  shutil.move(tmp_path / "out/records/clapnq/base_000000.jsonl", tmp_path / "out/records/x.jsonl")
  refused("holds answers of base at step 0 to clapnq already", made, tmp_path / "out")
  np.testing.assert_array_equal(sorted(p.name for p in (tmp_path / "out").iterdir()),
                                ["evaluation.json", "records"])  # fmt: skip

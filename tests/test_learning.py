"""The learning table against a hand-worked one, and controls that do what they say."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from asc_jax import config as config_lib
from asc_jax.rl import logs, trainer
from asc_jax.types import Batch, Rollout, Scores, Sentences

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def learning():
  spec = importlib.util.spec_from_file_location("learning", ROOT / "benchmarks/learning.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_without_records_there_is_no_table(tmp_path):
  command = [sys.executable, "benchmarks/learning.py", "--from-records"]
  command.append(f"--records={tmp_path / 'none.jsonl'}")
  run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
  assert run.returncode == 2 and "none.jsonl does not exist" in run.stderr


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_malformed_records_are_refused(learning, tmp_path, monkeypatch, capsys, text):
  (tmp_path / "bad.jsonl").write_text(text + "\n")
  monkeypatch.setattr(sys, "argv", ["x", "--from-records", f"--records={tmp_path / 'bad.jsonl'}"])
  with pytest.raises(SystemExit, match="2"):
    learning.main()
  assert "bad.jsonl holds no sums of finished runs" in capsys.readouterr().err


def test_the_readmes_table_is_the_records():
  command = [sys.executable, "benchmarks/learning.py", "--from-records"]
  run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
  assert (
    run.stdout.startswith("| run | credit % |") and run.stdout in (ROOT / "README.md").read_text()
  )


def test_a_change_and_its_interval(learning):
  """Two questions of ten sentences each: 2 and 4 credited before, 5 and 7 after."""

  def row(step, question, credited):
    values = {name: [credited, 10] for name in learning.SHOWN}
    return {"arm": "asc", "seed": 0, "step": step, "question": question, **values}

  rows = [row(0, "a", 2), row(0, "b", 4), row(30, "b", 7), row(30, "a", 5)]
  lines = learning.table(rows).splitlines()
  assert lines[2].startswith("| before | 30.0 |")
  # Each question rises by three sentences of ten, whichever are drawn.
  assert lines[3].startswith("| asc, seed 0 | 60.0 | +30.0 [+30.0, +30.0] |")


def batch_of(supported):
  shape = supported.shape
  zeros, ones = np.zeros(shape, bool), np.ones(shape, bool)
  return Batch(
    prompts=None,
    rollout=Rollout(None, np.full(shape[:2], 16, np.int32), None, None),
    token_mask=None,
    sentences=Sentences(None, ones, zeros, ones, zeros, np.zeros(shape[:2], np.float32)),
    scores=Scores(supported, np.zeros(shape, np.float32)),
    old_logps=None,
    ref_logps=None,
  )


@pytest.fixture
def batched(learning, monkeypatch):
  """batched(arm, batch, seed): what an arm makes of the batch that it sampled."""

  def of(arm, batch, seed=0):
    monkeypatch.setattr(trainer.Trainer, "batch", lambda *_: (batch, logs.Host({}, 0)))
    run = object.__new__(learning.trainer_of(arm))
    run.config = config_lib.default_config()
    run.config.seed = seed
    return run.batch(None, 3)[0]

  return of


def test_shuffling_keeps_a_questions_verdicts_and_breaks_their_places(batched):
  supported = np.arange(2 * 4 * 5, dtype=np.float32).reshape(2, 4, 5)
  found = batched("shuffled", batch_of(supported)).scores.supported
  for b in range(2):
    assert sorted(found[b].ravel()) == sorted(supported[b].ravel())
  assert (found != supported).mean() > 0.8
  assert (found != batched("shuffled", batch_of(supported), seed=1).scores.supported).any()


def test_the_penalty_of_length_ranks_short_answers_first(batched):
  from asc_jax.rl import update

  batch = batch_of(np.ones((1, 3, 2), np.float32))
  lengths = np.array([[4, 12, 8]], np.int32)
  batch = batched("shorter", batch._replace(rollout=batch.rollout._replace(lengths=lengths)))
  config = config_lib.apply_method(config_lib.default_config(), "copy_penalty")
  settings = update.objective(config)
  sentences = update.scored(batch.sentences, batch.scores, settings)
  credit, _ = update.credits(sentences, batch.scores, settings)
  batch_ids = sentences._replace(ids=np.zeros((1, 3, 2), np.int32))
  _, tokens = update.unit_advantages(batch_ids, credit, settings)
  assert tokens[0, 0, 0] > tokens[0, 2, 0] > tokens[0, 1, 0]

"""The page of `tools.inspect_data`, on a corpus small enough to count by hand."""

import subprocess
import sys

from asc_jax.data.answerable import answerable
from asc_jax.tools import inspect_data
from asc_jax.types import Example, Passage


def _example(**changes):
  fields = {
    "id": "1",
    "corpus": "toy",
    "question": "When did it open?",
    "passages": (Passage("Bridge", "The Bridge opened in 1904."), Passage("", "It is red.")),
  }
  return Example(**{**fields, **changes})


def test_answerable_by_label_short_answer_or_judge():
  assert answerable(_example(answerable=False, aliases=("1904",))) is False
  assert answerable(_example(answerable=True)) is True
  assert answerable(_example()) is None
  assert answerable(_example(passages=(), aliases=("1904",))) is None
  assert answerable(_example(aliases=("the bridge.",))) is True  # case, article, full stop
  assert answerable(_example(aliases=("190",))) is False  # no whole word
  assert answerable(_example(aliases=("the", "!"))) is False  # nothing is left of it
  assert answerable(_example(qa_pairs=(("1932",), ("1999", "1904")))) is True
  assert answerable(_example(qa_pairs=(("1932",),))) is False


def test_report_counts():
  examples = [
    _example(answers=("In 1904.",)),
    _example(id="2", question="Why?", passages=(Passage("", "one two"),), aliases=("three",)),
  ]
  lines = inspect_data.report("toy", examples, {"no passages": 3, "empty question": 4}).split("\n")
  assert lines[0] == "toy: 2 questions"
  assert lines[2] == "  answerable from the passages: yes 0, no 1, needs a judge 1"
  assert lines[3] == "  with a reference answer: 1; with short answers: 1"
  numbers = {line[:24].strip(): line[24:].split() for line in lines[6:11]}
  assert numbers == {
    "words a question": ["1", "2.5", "2.5", "4"],
    "passages a question": ["1", "1.5", "1.5", "2"],
    "words of passages": ["2", "5", "5.0", "8"],
    "words a passage": ["2", "3", "3.3", "5"],
    "words an answer": ["2", "2", "2.0", "2"],
  }
  assert lines[12:15] == ["dropped: 7", "       4  empty question", "       3  no passages"]
  assert any(line.startswith("  passage 1     Bridge: The Bridge opened") for line in lines)


def _run(*flags):
  command = [sys.executable, "-m", "asc_jax.tools.inspect_data", *flags]
  return subprocess.run(command, capture_output=True, text=True)


def test_command(tmp_path):
  done = _run()
  assert done.returncode == 0
  assert done.stdout.startswith(
    "quickstart: 40 questions\n  split: train 25, checker_a 4, checker_b 0, eval 11\n"
  )
  done = _run("--config.data.corpus=clapnq", f"--config.data.path={tmp_path / 'no'}")
  assert done.returncode == 2 and not done.stdout
  assert done.stderr.count("\n") == 1 and "does not exist" in done.stderr

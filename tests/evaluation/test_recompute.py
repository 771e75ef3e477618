"""The package's metrics against the script that imports nothing of it."""

import ast
import json
import pathlib
import random
import subprocess
import sys

import pytest
import synthetic_records as synthetic
import test_metrics

from asc_jax.evaluation import metrics, records

SCRIPT = pathlib.Path(__file__).parent / "recompute.py"


def recomputed(path, *instrument):
  command = [sys.executable, str(SCRIPT), str(path), *instrument]
  return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def paper_records():
  """Random answers scored by the paper's instruments, some sentences unscored."""
  rng = random.Random(11)
  rows = synthetic.realistic(rng, 40, corpus="asqa", group=2) + synthetic.realistic(rng, 25)
  names = sorted({c.instrument for c in metrics.PAPER if c.instrument})
  for row in rows:
    row["instruments"] = dict.fromkeys(names, "0")
    for s in row["sentences"]:
      s["scores"] = {
        name: {"supported": rng.random(), "vacuous": rng.random(), "threshold": 0.4}
        for name in names
      }
      if rng.random() < 0.1:
        s["scores"]["alignscore"]["supported"] = None
        s["scores"]["gemma_judge"]["supported"] = None
  return [
    *rows,
    {**rows[0], "id": "silent", "answer": " ", "sentences": [], "matches": [], "words": 0},
  ]


@pytest.mark.parametrize("instrument", [None, "minilm", "lexical"])
@pytest.mark.parametrize("made", ["stand-ins", "paper", "hand"])
def test_a_script_without_the_package_gets_the_same_numbers(made, instrument, tmp_path):
  rows = {
    "stand-ins": lambda: synthetic.realistic(random.Random(5), 60, corpus="asqa"),
    "paper": paper_records,
    "hand": test_metrics.worked_example,
  }[made]()
  path = tmp_path / "records.jsonl"
  records.append(path, rows)
  ours = recomputed(path, *([instrument] if instrument else []))
  assert set(ours) == {row["corpus"] for row in rows}
  compared = 0
  for corpus, found in ours.items():
    chosen = [row for row in records.read(path) if row["corpus"] == corpus]
    values, row = metrics.summarise(chosen).values, chosen[0]
    ran = instrument in row["instruments"] if instrument else True
    for name, value in found.items():
      column = name
      if name == "Credit":
        column = "Credit [minilm]"  # of the reward, whoever else measures
      elif instrument and name in ("R", "Err", "Supp", "Vac"):
        if not ran:
          assert value is None
          continue
        column = f"{name} [{instrument}]"
      assert values[column] == (None if value is None else pytest.approx(value)), column
      compared += value is not None
  assert compared >= 5


def test_the_script_imports_nothing_of_the_package():
  tree = ast.parse(SCRIPT.read_text())
  names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
  assert sorted(names) == ["json", "numpy", "sys"]
  assert not any(isinstance(n, ast.ImportFrom) for n in ast.walk(tree))

"""The quality table of an instrument, on hand-made sets."""

import json

import numpy as np
import pytest

from asc_jax.config import default_config
from asc_jax.tools import evaluate_checker
from asc_jax.types import UserError


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "begin").mkdir()
  rows = ["knowledge\tresponse\tbegin_label"]
  for i in range(6):
    known = f"Well {i} gave {i + 40} litres of water."
    rows.append(f"{known}\tWell {i} gave {i + 40} litres.\tFully attributable")
    rows.append(f"{known}\tA king dug canal number nine here.\tNot fully attributable")
  (tmp_path / "begin" / "begin_dev.tsv").write_text("\n".join(rows) + "\n")
  return tmp_path


def config_of(folder, **fields):
  config = default_config(evaluate_checker.FIELDS)
  config.data.path, config.data.split = str(folder), "all"
  config.checker.name = "lexical"
  for name, value in fields.items():
    config[name] = value
  return config


def test_a_perfect_ranking_and_its_files(folder, tmp_path, capsys):
  evaluate_checker.main(config_of(folder, out=str(tmp_path / "out")))
  printed = capsys.readouterr().out
  assert "lexical rules-1, threshold 0.5" in printed
  assert "| begin | 12 | 0.50 | 1.000 | 1.000 | 0.000 | 0 |" in printed
  assert "| mean | | | 1.000 | 1.000 | 0.000 |" in printed
  assert (tmp_path / "out" / "reliability.png").stat().st_size > 1000
  scores = json.loads((tmp_path / "out" / "scores.json").read_text())["scores"]["begin"]
  assert sorted(row[1:] for row in scores) == [[False, 0.0]] * 6 + [[True, 1.0]] * 6
  assert len({key for key, *_ in scores}) == 12


def test_what_was_not_scored_is_in_no_measure():
  labels = np.array([True, False, False])
  known = evaluate_checker.measures(labels[:2], np.array([0.9, 0.2]), 0.5)
  assert evaluate_checker.measures(labels, np.array([0.9, 0.2, np.nan]), 0.5) == known


def test_a_folder_that_cannot_be_written_is_named_before_the_checker_loads(folder, monkeypatch):
  monkeypatch.setattr(evaluate_checker.checkers, "from_config", None)
  (folder / "out").write_text("")
  with pytest.raises(UserError, match="--config.out=.*out cannot be written"):
    evaluate_checker.main(config_of(folder, out=str(folder / "out")))


def test_a_refused_checker_leaves_no_folder(folder, tmp_path):
  config = config_of(folder, out=str(tmp_path / "out"))
  config.checker.name = "lexicon"
  with pytest.raises(UserError, match="'lexicon' is none of"):
    evaluate_checker.main(config)
  assert not (tmp_path / "out").exists()


def test_an_empty_split_is_an_error(folder):
  config = config_of(folder)
  config.data.split = "train"  # pairs without a question never are
  with pytest.raises(UserError, match="no pair in the split train"):
    evaluate_checker.main(config)

"""Instruments beside each other, on score files written by hand."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from asc_jax.tools import compare_checkers
from asc_jax.types import UserError


def write(folder, sets):
  folder.mkdir()
  row = {"instrument": "x", "scores": {k: [list(r) for r in rows] for k, rows in sets.items()}}
  (folder / "scores.json").write_text(json.dumps(row))
  return str(folder)


def instruments(root, seed, count=200):
  """Two that know half each of what makes a pair supported, in sets `one` and `two`."""
  rng = np.random.default_rng(seed)
  sets = [{}, {}]
  for name in ("one", "two"):
    a, b = rng.normal(size=(2, count))
    labels = a + b > 0
    for i, x in enumerate((a, b)):
      p = 1 / (1 + np.exp(-x))
      sets[i][name] = [
        (str(k), bool(v), float(s)) for k, (v, s) in enumerate(zip(labels, p, strict=True))
      ]
  return [
    write(root / f"{name}-{seed}", scores) for name, scores in zip("ab", sets, strict=True)
  ], sets


def cells(printed, row):
  return [c.strip() for c in next(x for x in printed if x.startswith(f"| {row} ")).split("|")][3:-1]


def test_each_alone_is_sklearns_and_the_stack_knows_both(tmp_path, capsys):
  fit, _ = instruments(tmp_path, 0)
  test, sets = instruments(tmp_path, 1)
  compare_checkers.main(test, ",".join(fit))
  printed = capsys.readouterr().out.splitlines()
  for name in ("one", "two"):
    _, labels, a = zip(*sets[0][name], strict=True)
    _, _, b = zip(*sets[1][name], strict=True)
    got = cells(printed, name)
    assert got[:2] == [f"{roc_auc_score(labels, x):.3f}" for x in (a, b)]
    assert min(map(float, got[2:])) > 0.98 > max(map(float, got[:2]))
  wanted = np.mean(
    [
      spearmanr([r[2] for r in sets[0][n]], [r[2] for r in sets[1][n]]).statistic
      for n in ("one", "two")
    ]
  )
  assert printed[-1] == f"  a-1, b-1: {wanted:.2f}"


def test_pairs_without_a_score_are_left_out_for_all(tmp_path, capsys):
  rows = [("p", True, 0.9), ("q", False, 0.2), ("r", False, 0.95)]
  one = write(tmp_path / "one", {"s": rows})
  two = write(tmp_path / "two", {"s": [("q", False, 0.3), ("p", True, 0.4), ("r", False, None)]})
  compare_checkers.main([one, two], None)
  assert "| s | 2 | 1.000 | 1.000 |" in capsys.readouterr().out


def test_what_cannot_be_compared_is_one_line(tmp_path):
  one = write(tmp_path / "one", {"s": [("p", True, 0.9)]})
  two = write(tmp_path / "two", {"s": [("q", True, 0.9)]})
  with pytest.raises(UserError, match="no pair has a score in each of"):
    compare_checkers.main([one, two], None)
  with pytest.raises(UserError, match=r"scores\.json is missing; write it with evaluate_checker"):
    compare_checkers.main([str(tmp_path)], None)
  with pytest.raises(UserError, match="--fit names 2 folders for 1 instruments"):
    compare_checkers.main([one], f"{one},{two}")

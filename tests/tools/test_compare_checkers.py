"""Instruments beside each other, on score files written by hand."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from asc_jax.tools import compare_checkers
from asc_jax.types import UserError


def write(folder, sets, name="x"):
  folder.mkdir(parents=True)
  row = {"instrument": name, "scores": {k: [list(r) for r in rows] for k, rows in sets.items()}}
  (folder / "scores.json").write_text(json.dumps(row))
  return str(folder)


def instruments(root, split, sign=1, count=200):
  """a and b know half each of what makes a pair supported; in the set `two`, b has a sign."""
  rng = np.random.default_rng(len(split))
  sets = [{}, {}]
  for name, direction in (("one", 1), ("two", sign)):
    a, b = rng.normal(size=(2, count))
    labels = a + direction * b > 0
    for scores, x in zip(sets, (a, b), strict=True):
      p = 1 / (1 + np.exp(-x))
      scores[name] = [
        (f"{split}{i}", bool(label), float(score))
        for i, (label, score) in enumerate(zip(labels, p, strict=True))
      ]
  folders = [write(root / split / n, s, n) for n, s in zip("ab", sets, strict=True)]
  return folders, sets


def cells(printed, row):
  return [c.strip() for c in next(x for x in printed if x.startswith(f"| {row} ")).split("|")][3:-1]


def test_each_alone_is_sklearns_and_the_stack_knows_both(tmp_path, capsys):
  fit, _ = instruments(tmp_path, "fit")
  test, sets = instruments(tmp_path, "test")
  compare_checkers.main(test, ",".join(fit))
  printed = capsys.readouterr().out.splitlines()
  correlations = []
  for name in ("one", "two"):
    _, labels, a = zip(*sets[0][name], strict=True)
    _, _, b = zip(*sets[1][name], strict=True)
    got = cells(printed, name)
    assert got[:2] == [f"{roc_auc_score(labels, x):.3f}" for x in (a, b)]
    averaged = np.mean([np.log(x) - np.log1p(-np.array(x)) for x in (a, b)], axis=0)
    assert got[2] == f"{roc_auc_score(labels, averaged):.3f}"
    assert min(map(float, got[2:])) > 0.98 > max(map(float, got[:2]))
    correlations.append(spearmanr(a, b).statistic)
  assert printed[-1] == f"  a, b: {np.mean(correlations):.2f}"


def test_left_out_is_fitted_without_the_set(tmp_path, capsys):
  # The sets disagree about b: together they make nothing of it, each alone misleads.
  fit, _ = instruments(tmp_path, "fit", sign=-1)
  test, _ = instruments(tmp_path, "test", sign=-1)
  compare_checkers.main(test, ",".join(fit))
  printed = capsys.readouterr().out.splitlines()
  for name in ("one", "two"):
    alone, _, _, whole, left_out = map(float, cells(printed, name))
    assert abs(whole - alone) < 0.07 and abs(left_out - 0.5) < 0.12


def test_pairs_without_a_score_are_left_out_for_all(tmp_path, capsys):
  rows = [("p", True, 0.9), ("q", False, 0.2), ("r", False, 0.95)]
  one = write(tmp_path / "one", {"s": rows})
  two = write(tmp_path / "two", {"s": [("q", False, 0.3), ("p", True, 0.4), ("r", False, None)]})
  compare_checkers.main([one, two], None)
  assert "| s | 2 | 1.000 | 1.000 | 1.000 |" in capsys.readouterr().out


def test_what_cannot_be_compared_is_one_line(tmp_path):
  rows = [("p", True, 0.9), ("q", False, 0.2)]
  one = write(tmp_path / "one", {"s": rows})
  two = write(tmp_path / "two", {"s": [(key + "2", *rest) for key, *rest in rows]}, "y")
  twin = write(tmp_path / "twin/one", {"s": rows})
  for test, fit, message in (
    ([one, two], None, "no set has pairs of both labels that each has scored"),
    ([str(tmp_path)], None, r"scores\.json is missing; write it with evaluate_checker"),
    ([one, twin], None, "have one name"),
    ([one, str(tmp_path / "stacked")], None, "a folder is named stacked, as a column"),
    ([one], two, "--fit holds y; the test holds x"),
    ([one], twin, "--fit has pairs of s that the test has"),
  ):
    with pytest.raises(UserError, match=message):
      compare_checkers.main(test, fit)


@pytest.mark.parametrize(
  "rows", [3, {"a": 1}, [[True, 0.5]], [["k", True, "x"]], [["k", "no", 0.5]], [["k", True, 5]],
           [[["k"], True, 0.5]], [["k", True, float("nan")]]],
)  # fmt: skip
def test_a_damaged_table_is_named(tmp_path, rows):
  (tmp_path / "scores.json").write_text(json.dumps({"instrument": "x", "scores": {"s": rows}}))
  with pytest.raises(UserError, match=r"scores\.json is no table of scores; write it again|NaN"):
    compare_checkers.main([str(tmp_path)], None)

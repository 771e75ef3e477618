"""Which two answers make a pair, against a loop and by hand; files of pairs, and bad ones."""

import itertools
import json

import numpy as np
import pytest

from asc_jax.data import preferences
from asc_jax.data.preferences import Pair, Sample, Scored
from asc_jax.types import UserError


def sample(*answers):
  """(R, copy) of each answer; its text is its place."""
  rows = [Scored(str(i), True, R, copy, 10 + i) for i, (R, copy) in enumerate(answers)]
  return Sample("quickstart", "q1", "Why?", tuple(rows))


def places(pair):
  return pair and (int(pair.chosen.answer), int(pair.rejected.answer))


@pytest.mark.parametrize(
  ("answers", "tolerance", "expected"),
  [
    ([(0.5, 0.1), (1.0, 0.9), (0.0, 0.0), (0.0, 0.9)], None, (1, 2)),  # the first of two worst
    ([(0.5, 0.1), (1.0, 0.9), (0.0, 0.0), (0.0, 0.9)], 0.05, (1, 3)),
    ([(0.5, 0.1), (1.0, 0.9), (0.0, 0.4), (0.2, 0.3)], 0.2, (0, 3)),  # 0 and 2 differ by 0.3
    ([(1.0, 0.15), (1.0, 0.1), (0.0, 0.1)], 0.2, (1, 2)),  # equal in R: the closer pair
    ([(1.0, 0.35), (0.0, 0.30)], 0.05, (0, 1)),  # 0.35 - 0.30 is 0.04999...
    ([(1.0, 0.35), (0.0, 0.29)], 0.05, None),
    ([(0.5, 0.1), (0.5, 0.9)], None, None),  # nothing to prefer
    ([(0.5, 0.1)], None, None),
    ([], None, None),
  ],
)
def test_best_against_worst_and_matched_on_copy(answers, tolerance, expected):
  assert places(preferences.choose(sample(*answers), tolerance)) == expected


@pytest.mark.parametrize("tolerance", [None, 0.0, 0.25, 0.5])
def test_no_allowed_pair_is_further_apart(tolerance):
  rng = np.random.default_rng(5)
  missing = 0
  for _ in range(50):
    shares = rng.integers(0, 5, (6, 2)) / 4
    gaps = [
      a[0] - b[0]
      for a, b in itertools.permutations(shares, 2)
      if tolerance is None or abs(a[1] - b[1]) <= tolerance
    ]
    pair = preferences.choose(sample(*shares.tolist()), tolerance)
    missing += pair is None
    found = 0 if pair is None else pair.chosen.R - pair.rejected.R
    assert found == max(0, *gaps) if gaps else pair is None
  assert missing < 25


def pairs():
  answers = [
    Scored("Ja, „so“ \u2028 ist es.", True, 1.0, 0.25, 4),
    Scored("", False, 0.0, 0.0, 0),
    Scored("Nein.", True, 0.5, 0.3, 1),
  ]
  return [
    Pair("quickstart", "q1", "Warum?", answers[0], answers[1]),
    Pair("quickstart", "q2", "Wie?", answers[0], answers[2]),
  ]


def test_pairs_come_back_as_written(tmp_path):
  path = tmp_path / "pairs.jsonl"
  preferences.write(path, pairs())
  assert preferences.read(path) == pairs()
  assert [p.name for p in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_samples_come_back_as_encoded(tmp_path):
  path = tmp_path / "samples.jsonl"
  rows = [sample((1.0, 0.5), (0.0, 0.0)), Sample("quickstart", "q2", "How?", ())]
  path.write_text('{"config": {"seed": 3}}\n' + "".join(map(preferences.encode, rows)))
  assert preferences.read_samples(path) == ({"seed": 3}, rows)


def change(row, where, value):
  *path, last = where
  for name in path:
    row = row[name]
  if value is None:
    del row[last]
  else:
    row[last] = value


@pytest.mark.parametrize(
  ("where", "value", "message"),
  [
    (("id",), 7, r"pairs.jsonl:2: expected a string as 'id', found an integer"),
    (("chosen",), None, "pairs.jsonl:2: expected an object as 'chosen', found only"),
    (("chosen", "R"), "1", "pairs.jsonl:2, chosen: expected a number or an integer as 'R'"),
    (("rejected", "copy"), 1.5, "pairs.jsonl:2, rejected: expected a share .* 'copy', found 1.5"),
    (("rejected", "R"), 1.0, "pairs.jsonl:2: expected a larger R in 'chosen'"),
    (("id",), "q1", "pairs.jsonl:2: expected one pair a question, found 'q1' again"),
    (("chosen", "copy"), 0.8, "pairs.jsonl:2: .*copy_tolerance=0.3, found 0.5 between"),
  ],
)
def test_a_malformed_pair_is_named(tmp_path, where, value, message):
  path = tmp_path / "pairs.jsonl"
  preferences.write(path, pairs())
  first, second = map(json.loads, path.read_text().split("\n")[:2])
  change(second, where, value)
  path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
  with pytest.raises(UserError, match=message):
    preferences.read(path, copy_tolerance=0.3)


def test_files_without_pairs_are_named(tmp_path):
  with pytest.raises(UserError, match="nowhere.jsonl is no file; config.dpo.pairs takes"):
    preferences.read(tmp_path / "nowhere.jsonl")
  empty = tmp_path / "empty.jsonl"
  empty.touch()
  with pytest.raises(UserError, match="empty.jsonl: expected a pair a line, found none"):
    preferences.read(empty)
  empty.write_text('{"corpus": 1}\n')
  with pytest.raises(UserError, match="empty.jsonl:1: expected a string as 'corpus'"):
    preferences.read(empty)
  empty.write_text('{"corpus": "a"}\n{"corp')
  with pytest.raises(UserError, match="empty.jsonl:2: expected one JSON object a line"):
    preferences.read(empty)


def test_statistics_are_means_over_pairs():
  text = preferences.statistics([sample((1.0, 0.5), (0.0, 0.0))] * 3, pairs())
  lines = [line.split() for line in text.splitlines()]
  assert text.startswith("questions 3, scored answers 6, pairs 2")
  assert ["R", "%", "100.0", "25.0", "+75.0"] in lines  # (0 + 0.5) / 2
  assert ["Copy", "%", "25.0", "15.0", "+10.0"] in lines
  assert ["Words", "4.0", "0.5", "+3.5"] in lines
  assert text.endswith("largest difference in Copy within a pair: 25.0 points")
  assert "nan" in preferences.statistics([], [])

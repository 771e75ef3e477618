"""The cache on disk: what is asked again, what is kept apart, what is not kept."""

import sqlite3

import numpy as np
import pytest
from test_base import Recorder

from asc_jax import checkers
from asc_jax.checkers.cache import Cached, open_cache
from asc_jax.config import default_config
from asc_jax.types import UserError

DOCUMENTS, SENTENCES = ["d", "d", "e"], ["s1", "s2", "s1"]


def test_a_new_process_finds_every_score_unscored_ones_too(tmp_path):
  path = tmp_path / "deep" / "scores.db"
  first = Recorder({"s1": 0.1, "s2": None})
  got = Cached(first, open_cache(path)).score(DOCUMENTS, SENTENCES)
  assert len(first.asked) == 3
  second = Recorder({"s1": 0.9, "s2": 0.9, "s3": 0.4})
  again = Cached(second, open_cache(path)).score([*DOCUMENTS, "d"], [*SENTENCES, "s3"])
  np.testing.assert_array_equal(again[:3], got)
  assert np.isnan(again[1]) and again[0] == np.float32(0.1)
  assert second.asked == [("d", "s3")]


def test_other_weights_and_other_cuts_of_the_texts_are_other_scores(tmp_path):
  path = tmp_path / "scores.db"
  Cached(Recorder({"b": 0.1}), open_cache(path)).score(["da"], ["b"])
  other = Recorder({"b": 0.7, "ab": 0.3})
  assert Cached(other, open_cache(path)).score(["d"], ["ab"])[0] == np.float32(0.3)
  other.weights_hash = "1"
  assert Cached(other, open_cache(path)).score(["da"], ["b"])[0] == np.float32(0.7)


def test_a_failed_score_is_not_kept(tmp_path):
  path = tmp_path / "scores.db"
  with pytest.raises(UserError, match="no probability"):
    Cached(Recorder({"s1": float("nan")}), open_cache(path)).score(["d"], ["s1"])
  assert Cached(Recorder({"s1": 0.5}), open_cache(path)).score(["d"], ["s1"])[0] == 0.5


def test_a_file_that_is_no_cache_is_named(tmp_path):
  (tmp_path / "notes.txt").write_text("These are notes, and not a data base at all.\n" * 50)
  with sqlite3.connect(tmp_path / "other.db") as other:
    other.execute("CREATE TABLE scores (player TEXT, points INTEGER)")
  for name in ("notes.txt", "other.db"):
    with pytest.raises(UserError, match=rf"{name} is no cache of scores .*; name another file"):
      open_cache(tmp_path / name)


def test_the_config_switches_it_on(tmp_path):
  config = default_config().checker
  config.name, config.threshold, config.cache = "lexical", 0.75, str(tmp_path / "scores.db")
  checker = checkers.from_config(config)
  assert isinstance(checker, Cached) and checker.threshold == 0.75
  assert checker.score(["Bees dance."], ["Bees sing."])[0] == 0.5
  config.cache, config.head = None, "b"
  with pytest.raises(UserError, match=r"drop config\.checker\.head"):
    checkers.from_config(config)

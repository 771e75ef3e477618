"""The committed split: stable, spelling-proof, and of the stated proportions."""

import hashlib

import pytest

from asc_jax.data import splits
from asc_jax.types import Example, UserError


def test_split_is_the_documented_hash():
  # Independent reading of the rule: blake2b of the letters and digits, in lower case.
  for question, letters in (
    ("Who wrote the song?", "whowrotethesong"),
    ("  WHO wrote — the “song” ? ", "whowrotethesong"),
    ("Is Straße 5 long?", "isstrasse5long"),
  ):
    share = int.from_bytes(hashlib.blake2b(letters.encode(), digest_size=8).digest(), "big") / 2**64
    expected = (
      "train"
      if share < 0.5
      else "checker_a"
      if share < 0.65
      else "checker_b"
      if share < 0.8
      else "eval"
    )
    assert splits.split_of(question) == expected


def test_committed_assignments_do_not_move():
  # Changing the rule would put questions that a shipped checker was fitted on into "train".
  questions = (
    "what is a glacier",
    "who built the bridge",
    "when does the tide turn",
    "how are bells cast",
    "why do leaves fall",
    "where is the lighthouse",
    "what is peat",
  )
  assert [splits.split_of(q) for q in questions] == COMMITTED


COMMITTED = ["train", "train", "train", "eval", "eval", "train", "eval"]


def test_proportions():
  n = 20_000
  counts = {name: 0 for name in splits.SPLITS}
  for i in range(n):
    counts[splits.split_of(f"question number {i}")] += 1
  for name, share in {"train": 0.5, "checker_a": 0.15, "checker_b": 0.15, "eval": 0.2}.items():
    assert counts[name] / n == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)


def test_groups_without_a_question_never_train_policies_and_keep_their_checker():
  counts = {name: 0 for name in splits.SPLITS}
  for i in range(4_000):
    split, group_split = splits.split_of(f"claim {i}"), splits.checker_split_of(f"claim {i}")
    counts[group_split] += 1
    assert split in ("train", group_split)
  assert counts["train"] == 0
  assert abs(counts["checker_a"] - counts["checker_b"]) < 250


def test_select_is_by_hash_not_by_file_order():
  examples = [Example(str(i), "toy", f"question number {i}") for i in range(50)]
  chosen = splits.select(examples, "eval")
  assert chosen == splits.select(reversed(examples), "eval")
  assert {splits.split_of(e.question) for e in chosen} == {"eval"}
  assert sorted(e.id for s in splits.SPLITS for e in splits.select(examples, s)) == sorted(
    e.id for e in examples
  )
  assert len(splits.select(examples, "all")) == 50


def test_select_refuses_an_unknown_or_empty_split():
  example = Example("0", "toy", "what is a glacier")
  others = [s for s in splits.SPLITS if s != splits.of_example(example)]
  with pytest.raises(UserError, match="none of the corpus's 1 questions"):
    splits.select([example], others[0])
  with pytest.raises(UserError, match="'dev' is not one of"):
    splits.select([example], "dev")


def test_split_key_decides_where_the_question_is_shared():
  examples = [Example(str(i), "toy", "Summarise.", split_key=f"article {i}") for i in range(40)]
  assert {splits.of_example(e) for e in examples} == set(splits.SPLITS)

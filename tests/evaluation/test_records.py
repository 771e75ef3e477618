"""Records survive the file, a kill, and complain by file, line and field."""

import json

import pytest
from synthetic_records import record, sentence

from asc_jax.data import files
from asc_jax.evaluation import records
from asc_jax.types import UserError


def example(id="q1"):
  spans = [
    sentence("Es öffnete 1932 \U0001f309.", scores={"minilm": (0.9, None)}),
    sentence("橋は1932年に開通した。\u2028"),
  ]
  match = {"start": 3, "end": 7, "passage": 0, "passage_start": 4, "passage_end": 9}
  return record(id, spans, matches=[match], answerable=True, em=1)


def test_round_trip_keeps_every_byte_of_the_answer(tmp_path):
  path = tmp_path / "deep" / "records.jsonl"
  rows = [example("q1"), example("q2")]
  records.append(path, rows[:1])
  records.append(path, rows[1:])
  assert records.read(path) == rows
  assert len(path.read_bytes().splitlines()) == 2


def test_field_order_does_not_change_the_bytes():
  row = example()
  assert records.encode(dict(reversed(row.items()))) == records.encode(row)


def test_a_killed_writers_half_line_is_cut_before_the_next(tmp_path):
  path = tmp_path / "records.jsonl"
  records.append(path, [example("q1")])
  whole = path.read_bytes()
  path.write_bytes(whole + records.encode(example("q2")).encode()[:57])
  records.append(path, [example("q2")])
  assert [r["id"] for r in records.read(path)] == ["q1", "q2"]
  assert path.read_bytes().startswith(whole)


def test_a_half_first_line_leaves_an_empty_file(tmp_path):
  path = tmp_path / "records.jsonl"
  path.write_text('{"run": "ba')
  files.cut_tail(path)
  assert path.read_bytes() == b""


def changed(path, value):
  """The example's line with one field replaced; a value of `del` removes it."""
  row = json.loads(records.encode(example()))
  node = row
  for key in path[:-1]:
    node = node[key]
  if value is del_:
    del node[path[-1]]
  else:
    node[path[-1]] = value
  return json.dumps(row)


del_ = object()
MALFORMED = {
  "words takes a int, not '9'": changed(["words"], "9"),
  "words takes a int, not True": changed(["words"], True),
  "copy takes a float, not nan": changed(["copy"], float("nan")),
  "copied is missing": changed(["sentences", 1, "copied"], del_),
  "sentences[0].scores[minilm].supported takes a float": changed(
    ["sentences", 0, "scores", "minilm", "supported"], "0.9"
  ),
  "answer_idx is not a field": changed(["answer_idx"], 0),
  "sentences[1] spans 5 to 900": changed(
    ["sentences", 1], {**example()["sentences"][1], "start": 5, "end": 900}
  ),
  "matches[0].passage is 1 of 1 passages": changed(["matches", 0, "passage"], 1),
  "matches[0] lies outside its passage": changed(["matches", 0, "passage_end"], 999),
  "the line takes an object, not [1]": "[1]",
  "not a JSON object": '{"run": ',
  "copy takes a float, not 1000": changed(["copy"], 10**400),
  "integer string conversion": '{"run": %s}' % ("9" * 5000),
  "maximum recursion depth": "[" * 100_000,
}


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_lines_are_named(message, tmp_path):
  path = tmp_path / "records.jsonl"
  path.write_text(records.encode(example()) + MALFORMED[message] + "\n")
  with pytest.raises(UserError) as error:
    records.read(path)
  assert str(error.value).startswith(f"{path}:2: ") and message in str(error.value)
  assert "\n" not in str(error.value)


def test_unreadable_files_are_named(tmp_path):
  with pytest.raises(UserError, match=r"gone\.jsonl: cannot be read"):
    records.read(tmp_path / "gone.jsonl")
  (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
  with pytest.raises(UserError, match="not UTF-8"):
    records.read(tmp_path / "binary")


def test_pseudo_sentences_are_those_of_white_space():
  row = record("q1", [sentence("It opened."), sentence(" ")])
  assert [records.is_pseudo(row, s) for s in row["sentences"]] == [False, True]
  assert records.real_sentences(row) == row["sentences"][:1]

"""Containers of public corpora, and the line that each kind of bad input earns."""

import json

import pytest

from asc_jax.data import files
from asc_jax.types import UserError


def _write(folder, name, text, encoding="utf-8"):
  path = folder / name
  path.write_bytes(text.encode(encoding))
  return path


ROWS = [{"q": "é"}, {"q": "second"}]
LINES = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in ROWS)


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("lines.jsonl", LINES),
    ("lines_called.json", LINES),
    ("array.json", json.dumps(ROWS, indent=2)),
    ("array_called.jsonl", json.dumps(ROWS)),
    ("byte_order_mark.jsonl", "\ufeff" + LINES),
    ("windows_line_ends.jsonl", LINES.replace("\n", "\r\n")),
    ("blank_lines_and_no_last_line_end.jsonl", "\n" + LINES.replace("\n", "\n\n").rstrip()),
  ],
)
def test_same_rows_from_every_container(tmp_path, name, text):
  assert [row.value for row in files.rows(_write(tmp_path, name, text))] == ROWS


def test_line_separators_inside_a_string_do_not_cut_the_line(tmp_path):
  text = '{"q": "one\u2028still one\u0085"}\n{"q": "two"}\n'
  assert [r.value["q"] for r in files.rows(_write(tmp_path, "a.jsonl", text))] == [
    "one\u2028still one\u0085",
    "two",
  ]


def test_one_object_is_one_row(tmp_path):
  assert [r.value for r in files.rows(_write(tmp_path, "a.json", '{\n "dev": {}\n}'))] == [
    {"dev": {}}
  ]


@pytest.mark.parametrize("text", ["", "  \n\n"])
def test_empty_file_has_no_rows(tmp_path, text):
  assert files.rows(_write(tmp_path, "a.jsonl", text)) == []


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      '{"q": 1}\n{"q": \n{"q": 3}\n',
      r"a\.jsonl:2: expected one JSON object a line, found bad JSON",
    ),
    ('{"q": 1}\n\n[1]\n', r"a\.jsonl:3: expected an object, found a list"),
    ('{"q": 1}\n7\n', r"a\.jsonl:2: expected an object, found an integer"),
    ('[{"q": 1},\n {"q" 2}]', r"a\.jsonl:2: expected a JSON array, found bad JSON at column 7"),
    ('[{"q": 1}, "x"]', r"a\.jsonl, row 1: expected an object, found a string"),
    ("question\tanswer\n", r"a\.jsonl:1: expected a JSON array or JSON objects"),
    ('{"q": 1}\n{"q": "a \\ud800"}\n', r"a\.jsonl:2: .* found half a surrogate pair, .ud800"),
    ('{"q": 1}\n{"q": %s}\n' % ("9" * 5000), r"a\.jsonl:2: .* found .* limit .* integer"),
    ('{"q": 1}\n' + '{"q":' * 100_000, r"a\.jsonl:2: .* found brackets nested too deep"),
    ("[" * 100_000, r"a\.jsonl:1: expected a JSON array, found brackets nested too deep"),
  ],
)
def test_malformed_json_names_file_line_and_expectation(tmp_path, text, message):
  with pytest.raises(UserError, match=message):
    files.rows(_write(tmp_path, "a.jsonl", text))


def test_a_whole_surrogate_pair_is_one_character(tmp_path):
  text = r'{"q": "a \ud83d\ude00"}'
  assert files.rows(_write(tmp_path, "a.jsonl", text))[0].value == {"q": "a \U0001f600"}


def test_a_folder_named_like_a_file_is_no_traceback(tmp_path):
  (tmp_path / "a.jsonl").mkdir()
  with pytest.raises(UserError, match=r"a\.jsonl cannot be read \(Is a directory\)"):
    [files.rows(path) for path in files.find(tmp_path, "*.jsonl")]


def test_other_encodings_are_refused(tmp_path):
  with pytest.raises(
    UserError, match=r"a\.jsonl: expected UTF-8 text, found byte 0xe9 at offset 7"
  ):
    files.rows(_write(tmp_path, "a.jsonl", '{"q": "é"}', "latin-1"))


@pytest.mark.parametrize(
  ("value", "types", "message"),
  [
    ({}, (str,), "a:4: expected a string as 'q', found only an empty object"),
    ({"Q": 1}, (str,), "a:4: expected a string as 'q', found only 'Q'"),
    ({"q": None}, (str,), "a:4: expected a string as 'q', found null"),
    ({"q": [1]}, (str, int), "a:4: expected a string or an integer as 'q', found a list"),
    ({"q": True}, (int,), "a:4: expected an integer as 'q', found true or false"),
  ],
)
def test_wrong_fields_say_what_was_expected(value, types, message):
  with pytest.raises(UserError, match=message):
    files.Row("a:4", value).take("q", *types)


def test_nested_fields_say_where():
  row = files.Row("a:1", {"p": [{"t": 1}, 2], "s": ["x", None], "n": None})
  with pytest.raises(UserError, match=r"a:1, p\[1\]: expected an object, found an integer"):
    row.objects("p")
  with pytest.raises(UserError, match=r"a:1, s\[1\]: expected a string, found null"):
    row.strings("s")
  assert row.objects("n") == [] and row.strings("n") == []


def test_find(tmp_path):
  for name in ("b.jsonl", "a.jsonl", "a_prompts.jsonl", "notes.txt"):
    _write(tmp_path, name, "")
  assert [p.name for p in files.find(tmp_path, "*.jsonl", exclude="prompts")] == [
    "a.jsonl",
    "b.jsonl",
  ]
  assert files.find(tmp_path / "notes.txt", "*.jsonl") == [tmp_path / "notes.txt"]
  with pytest.raises(UserError, match=r"holds no \*\.tsv or \*\.csv"):
    files.find(tmp_path, "*.tsv", "*.csv")
  with pytest.raises(UserError, match=r"nowhere does not exist"):
    files.find(tmp_path / "nowhere", "*.jsonl")
  with pytest.raises(UserError, match=r"set config\.data\.path"):
    files.find(None, "*.jsonl")


def test_table_with_and_without_quoting(tmp_path):
  quoted = _write(tmp_path, "a.csv", '\ufeffname,text\nx,"one, ""two""\nthree"\ny,\u2028z\n')
  assert [r.value for r in files.table(quoted, ("name", "text"))] == [
    {"name": "x", "text": 'one, "two"\nthree'},
    {"name": "y", "text": "\u2028z"},
  ]
  plain = _write(tmp_path, "a.tsv", 'name\ttext\nx\t"a stray quote\ny\tb"\n')
  rows = files.table(plain, ("name",), delimiter="\t", quoted=False)
  assert [r.value["text"] for r in rows] == ['"a stray quote', 'b"']
  assert [r.where for r in rows] == [f"{plain}:2", f"{plain}:3"]


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("name\nx\n", r"a\.csv:1: expected a header with text, found name"),
    ("", r"a\.csv:1: expected a header with name, text, found nothing"),
    ("name,text\nx\n", r"a\.csv:2: expected 2 cells, found 1"),
    ('name,text\nx,"y\n', r"a\.csv:2: expected a quoted table"),
  ],
)
def test_malformed_table(tmp_path, text, message):
  with pytest.raises(UserError, match=message):
    files.table(_write(tmp_path, "a.csv", text), ("name", "text"))


@pytest.mark.parametrize("name, reason", [("n" * 300, "name too long"), ("a.txt/b", "directory")])
def test_a_folder_that_cannot_be_made_is_refused_before_it_is_needed(tmp_path, name, reason):
  (tmp_path / "a.txt").write_text("")
  with pytest.raises(UserError, match=f"--out=.*cannot be written .*(?i:{reason})"):
    files.check_folder(tmp_path / name, "--out")
  files.check_folder(tmp_path / "b" / "c", "--out")
  assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]

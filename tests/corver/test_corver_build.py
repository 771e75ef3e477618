"""What goes into an index: formats, shards, and input that is refused."""

import gzip
import json

import pytest

from asc_jax.corver import build, index
from asc_jax.types import UserError

DOCUMENTS = [
  {"title": "Ostrel", "text": "The bridge at Ostrel hums. Ada Prewin heard it."},
  {"title": "", "text": "Ada Prewin taught at Ostrel."},
  {"title": "Mill", "text": 'Karl Dunmore’s mill: \u2028 grinds [oats], {barley} and "rye".'},
]
QUERIES = [("Ada", "Ostrel"), ("Prewin", "Ada", "hums"), ("mill", "rye"), ("Mill", "oats"), ("it",)]
EXPECTED = [2, 1, 1, 1, 1]


def counts(folder):
  return [c.occurrences for c in index.open_index(folder).counts(QUERIES)]


def write(folder, name):
  """The three documents in the format that the name ends in."""
  path = folder / name
  lines = "".join(json.dumps(row) + "\n" for row in DOCUMENTS)
  if name.endswith(".gz"):
    path.write_bytes(gzip.compress(lines.encode()))
  elif name == "array.json":
    path.write_text(json.dumps(DOCUMENTS, indent=1), encoding="utf-8-sig")
  elif name.endswith(".txt"):
    path.write_text(
      "".join(f"{d['title']} {d['text']}\n\n" for d in DOCUMENTS).replace("\u2028", "")
    )
  else:
    path.write_text("\n" + lines)
  return str(path)


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "array.json", "lines.json", "d.txt"])
def test_every_format_gives_the_same_counts(tmp_path, name):
  made = build.build([write(tmp_path, name)], tmp_path / "out")
  assert made["documents"] == 3
  assert made["inputs"] == [name]
  assert counts(tmp_path / "out") == EXPECTED


def test_an_array_longer_than_the_read_buffer(tmp_path, monkeypatch):
  monkeypatch.setattr(build, "_CHUNK", 7)
  assert list(build.documents([write(tmp_path, "array.json")])) == [
    "Ostrel\n" + DOCUMENTS[0]["text"],
    DOCUMENTS[1]["text"],
    "Mill\n" + DOCUMENTS[2]["text"],
  ]


def test_shards_do_not_change_counts(tmp_path):
  for n in range(12):
    (tmp_path / f"part{n:02}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in DOCUMENTS))
  one = build.build([str(tmp_path)], tmp_path / "one")
  many = build.build([str(tmp_path / "part*.jsonl")], tmp_path / "many", shard_tokens=20)
  assert (one["shards"], one["documents"]) == (1, 36)
  assert many["shards"] > 10  # so that the names sort otherwise than the numbers
  assert counts(tmp_path / "one") == counts(tmp_path / "many") == [12 * c for c in EXPECTED]


def test_a_folder_that_infini_gram_itself_cannot_read(tmp_path):
  out = tmp_path / "stable metadata & 'offset'"
  build.build([write(tmp_path, "d.jsonl")], out)
  assert counts(out) == EXPECTED


def test_a_killed_build_is_replaced_and_a_whole_one_kept(tmp_path):
  out = tmp_path / "out"
  source = write(tmp_path, "d.jsonl")
  out.mkdir()
  for name in ("tokenized.0", "offset.0", "table.0", "tokenized.1", "words.txt"):
    (out / name).write_bytes(b"\x01\x02")
  with pytest.raises(UserError, match="unfinished"):
    index.open_index(out)
  build.build([source], out)
  assert counts(out) == EXPECTED
  with pytest.raises(UserError, match="holds an index already"):
    build.build([source], out)


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.jsonl", '{"text": "Fine."}\n{"title": "x"}\n', "a.jsonl: row 2 has no string `text`"),
    ("a.jsonl", '{"text": "Fine."}\n{"text": \n', "a.jsonl: row 2 is not JSON"),
    ("a.json", '[{"text": "Fine."}, {"text"', "a.json: row 2 is not JSON"),
    ("a.json", '["Fine."]', "a.json: row 1 has no string `text`"),
    ("a.txt", " \n...\n", "no document with a word"),
    ("a.csv", "text\n", "ends in none of"),
    ("a.txt", b"\xff\xfe", "not UTF-8"),
  ],
)
def test_refused_input_is_named(tmp_path, name, content, message):
  path = tmp_path / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(UserError, match=message):
    build.build([str(path)], tmp_path / "out")


def test_a_missing_input_is_named(tmp_path):
  with pytest.raises(UserError, match="nowhere"):
    build.build([str(tmp_path / "nowhere.jsonl")], tmp_path / "out")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(UserError, match="pip install"):
    build.build([write(tmp_path, "d.jsonl")], tmp_path / "out")

"""Texts of the public corpora by file, row and field, for gold files that hold none."""

import functools
import json
import pathlib


@functools.cache
def _rows(path: pathlib.Path) -> list[dict]:
  if path.suffix == ".jsonl":
    return [json.loads(line) for line in path.read_text().splitlines()]
  rows = json.loads(path.read_text())
  return rows["demos"] if isinstance(rows, dict) else rows


def text(data: pathlib.Path, row: dict) -> str:
  """The text that a gold row points at: `row` is an index or an id, `field` a path of keys."""
  rows, key = _rows(data / row["file"]), row["row"]
  found = rows[key] if isinstance(key, int) else next(r for r in rows if r["id"] == key)
  for part in row["field"].split("."):
    found = found[int(part)] if isinstance(found, list) else found[part]
  return found

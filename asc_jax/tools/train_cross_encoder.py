"""Fine-tunes MiniLM to read a document and a sentence together, as a checker.

  python -m asc_jax.tools.train_cross_encoder --config=configs/checker_cross_encoder.py \\
    --out=FOLDER

Trains on what asc_jax/data/training_claims.py makes of the labelled pairs. Of a document, as
many tokens are read as the sentence leaves of the encoder's window. `--out` gets a BertForSequenceClassification:

  --config.checker.name=nli --config.checker.path=FOLDER
"""

from __future__ import annotations

import functools
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from asc_jax import cli
from asc_jax.checkers import alignscore, encoder, fitting
from asc_jax.config import FIELDS as ALL_FIELDS
from asc_jax.config import Field
from asc_jax.data import files, training_claims
from asc_jax.models import bert, checkpoints, classifier, safetensors, weights
from asc_jax.rl import update
from asc_jax.text import prompts
from asc_jax.types import UserError

_SHARED = ("seed", "optimizer.")
FIELDS = {
  **{name: field for name, field in ALL_FIELDS.items() if name.startswith(_SHARED)},
  **training_claims.FIELDS,
  "encoder.path": Field(None, "all-MiniLM-L6-v2's folder; None: the package's", optional=True),
}
BUCKETS = (64, 96, 128, 192, 256, 384)  # and the encoder's window
_LABELS = ("unsupported", "supported")

# Tokens int32[N, L], lengths int32[N], labels int32[N], weights float32[N].
Batch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def main(config, out: str | None) -> None:
  """Trains and writes the classifier."""
  out = files.new_folder(out, "--out", "checker")
  folder = encoder.find_weights(config.encoder.path)
  raw = checkpoints.read_json(folder / "config.json")
  if raw.get("model_type") != "bert":
    raise UserError(f"{folder} is a {raw.get('model_type')} model; give a BERT with its pooler")
  sizes = bert.BertConfig.from_dict(raw)
  rng = random.Random(config.seed)
  documents = training_claims.read(config.data, rng)
  tokenizer = checkpoints.load_tokenizer(folder)
  rows = encode(tokenizer, sizes, documents)
  buckets = [b for b in BUCKETS if b < sizes.window] + [sizes.window]
  size = config.data.batch_size * config.data.claims
  steps = [b for _ in range(config.data.epochs) for b in batches(rows, buckets, size, rng)]
  if not steps:
    raise UserError(f"no sentence of {config.data.path} fits into {sizes.window} tokens")
  print(f"{len(rows)} sentences about {len(documents)} documents, {len(steps)} steps", flush=True)

  graph, params = nnx.split(from_encoder(sizes, weights.read(folder)))
  optimizer, _ = update.make_optimizer(config.optimizer, len(steps))
  opt_state = optimizer.init(params)

  @jax.jit
  def step(params, opt_state, batch: Batch):
    loss, grads = jax.value_and_grad(_loss, argnums=1)(graph, params, *batch)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, optax.tree.norm(grads)

  losses, start = [], time.monotonic()
  for i, batch in enumerate(steps):
    params, opt_state, loss, norm = step(params, opt_state, batch)
    if not np.isfinite(loss + norm):
      raise UserError(f"step {i + 1}: loss {loss}; lower config.optimizer.learning_rate")
    losses.append(float(loss))
    if (i + 1) % 20 == 0 or i + 1 == len(steps):
      seconds = time.monotonic() - start
      print(f"step {i + 1}, {seconds:.0f} s, loss {np.mean(losses):.4f}", flush=True)
      losses = []
  write(out, nnx.merge(graph, params), raw, tokenizer)
  print(f"written: {out}")


def write(out: str, model: classifier.Classifier, raw: Mapping[str, Any], tokenizer) -> None:
  """A folder that transformers and `nli` read."""
  names = {
    "architectures": ["BertForSequenceClassification"],
    "id2label": {str(i): name for i, name in enumerate(_LABELS)},
    "label2id": {name: i for i, name in enumerate(_LABELS)},
  }
  with files.whole_folder(out) as folder:
    tensors = classifier.to_weights(model, classifier.BERT)
    safetensors.save_file(folder / "model.safetensors", tensors)
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({**raw, **names}, indent=2) + "\n")


def from_encoder(
  sizes: bert.BertConfig, tensors: Mapping[str, np.ndarray]
) -> classifier.Classifier:
  """A classifier of two classes on an encoder with a pooler; it starts undecided."""
  head = {"head.weight": np.zeros((2, sizes.hidden_size)), "head.bias": np.zeros(2)}
  return classifier.from_weights(sizes, {**tensors, **head}, ("", "pooler.dense", "head"))


def encode(
  tokenizer, sizes: bert.BertConfig, documents: Mapping[str, Sequence[training_claims.Claim]]
) -> list[tuple[list[int], bool, float]]:
  """(ids, supported, weight) of each claim that fits beside some of its document."""
  ids = functools.partial(prompts.encode_text, tokenizer)
  weight = iter(fitting.claim_weights(documents))
  rows = []
  for document, own in documents.items():
    first = ids(document)
    for claim in own:
      joined, w = alignscore.pair_ids(tokenizer, first, ids(claim.sentence), sizes), next(weight)
      if joined is not None:
        rows.append((joined, claim.supported, w))
  return rows


def batches(
  rows: Sequence[tuple[list[int], bool, float]],
  buckets: Sequence[int],
  size: int,
  rng: random.Random,
) -> list[Batch]:
  """All rows once, in an order by chance, of one bucket in a batch; zeros where there is none."""
  by_bucket: dict[int, list] = {}
  for row in rng.sample(list(rows), len(rows)):
    by_bucket.setdefault(next(b for b in buckets if len(row[0]) <= b), []).append(row)
  found = []
  for bucket, some in by_bucket.items():
    for at in range(0, len(some), size):
      tokens = np.zeros((size, bucket), np.int32)
      lengths, labels = np.zeros(size, np.int32), np.zeros(size, np.int32)
      weight = np.zeros(size, np.float32)
      for i, (ids, label, w) in enumerate(some[at : at + size]):
        tokens[i, : len(ids)], lengths[i], labels[i], weight[i] = ids, len(ids), label, w
      found.append((tokens, lengths, labels, weight))
  rng.shuffle(found)
  return found


def _loss(graph, params, tokens, lengths, labels, weight) -> jax.Array:
  """Weighted mean cross-entropy."""
  logits = nnx.merge(graph, params)(tokens, lengths)
  wrong = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return (wrong * weight).sum() / jnp.maximum(weight.sum(), 1e-6)


if __name__ == "__main__":
  cli.run(main, fields=FIELDS, out=Field(None, "folder to write, not there yet", optional=True))

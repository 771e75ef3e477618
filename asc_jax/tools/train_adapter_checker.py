"""Fits a LoRA adapter under which a decoder answers Yes or No as a checker.

  python -m asc_jax.tools.train_adapter_checker --config=configs/checker_smollm2.py --out=FOLDER

Trains on the labelled pairs of `data.split` (asc_jax/data/support_pairs.py) and on sentences
made for the same documents (asc_jax/data/training_claims.py): one of the document's own, one
that was made false by another number, name or verb, and one from elsewhere. A document is
prefilled once for all its sentences, as the judge does it. `--out` gets the adapter in peft's layout, in float16:

  --config.checker.name=judge --config.checker.path=smollm2 --config.checker.adapter=FOLDER \\
    --config.checker.prompt=asc_jax/checkers/prompts/judge_short.txt
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asc_jax import cli, sharding
from asc_jax.checkers import fitting, judge, shared_document
from asc_jax.config import FIELDS as ALL_FIELDS
from asc_jax.config import Field
from asc_jax.data import files, training_claims
from asc_jax.models import checkpoints, decoder, lora
from asc_jax.rl import update
from asc_jax.text import prompts
from asc_jax.types import Array, UserError, Weighted

_SHARED = ("seed", "model.path", "model.lora.", "optimizer.")
FIELDS = {
  **{name: field for name, field in ALL_FIELDS.items() if name.startswith(_SHARED)},
  **training_claims.FIELDS,
  "prompt": Field(None, "the judge's prompt, a file; None: this project's own", optional=True),
}
PREFIXES = (96, 160, 256, 384, 640)  # tokens of a document's prompt
RESTS = (64, 96)  # tokens of a sentence and the prompt's end


class Group(NamedTuple):
  """Some sentences about one document, as tokens; they are short of `data.claims` at times."""

  prefix: list[int]
  rests: list[list[int]]  # from the prefix's last token on
  supported: list[bool]
  weights: list[float]

  @property
  def shape(self) -> tuple[int, int]:
    """The buckets that hold it."""
    prefix = next(b for b in PREFIXES if len(self.prefix) <= b)
    return prefix, next(b for b in RESTS if max(map(len, self.rests)) <= b)


class Batch(NamedTuple):
  """B documents with G sentences each."""

  tokens: Array  # int32[B, P]
  lengths: Array  # int32[B]
  rests: Array  # int32[B, G, T]
  rest_lengths: Array  # int32[B, G]
  supported: Array  # bool[B, G]
  weights: Array  # float32[B, G], 0 where there is no sentence


def main(config, out: str | None) -> None:
  """Trains and writes the adapter."""
  out = files.new_folder(out, "--out", "adapter")
  adapter = lora.from_config(config.model.lora)
  if adapter is None:
    raise UserError("config.model.lora.rank is 0; an adapter has at least rank 1")
  asked = judge.question(config.model.path, config.prompt, "config.prompt")
  rng = random.Random(config.seed)
  documents = training_claims.read(config.data, rng)
  groups = list(encode(asked, documents, config.data.claims))
  steps = [batch for _ in range(config.data.epochs) for batch in batches(groups, config, rng)]
  if not steps:
    raise UserError(f"no document of {config.data.path} fits into {PREFIXES[-1]} tokens")
  count = sum(len(group.rests) for group in groups)
  long = sum(map(len, documents.values())) - count
  print(
    f"{count} sentences in {len(groups)} groups, {len(steps)} steps; {long} sentences are too long",
    flush=True,
  )

  mesh = sharding.make_mesh()
  model, tokenizer = checkpoints.load(
    config.model.path, lora=adapter, mesh=mesh, seed=config.seed, remat="none"
  )
  optimizer, schedule = update.make_optimizer(config.optimizer, len(steps))
  step = update.make_update(optimizer, schedule, functools.partial(gradients, asked))
  with sharding.mesh_in_force(mesh):
    train = update.init(model, optimizer, mesh)
    total, weight, start = 0.0, 0.0, time.monotonic()
    for i, batch in enumerate(steps):
      train, metrics = step(train, batch)
      loss = metrics["loss/cross_entropy"]
      assert isinstance(loss, Weighted)
      if metrics["optimizer/skipped"].total:
        raise UserError(f"step {i + 1}: loss {loss.total}; lower config.optimizer.learning_rate")
      total += float(loss.total)
      weight += float(loss.weight)
      if (i + 1) % 10 == 0 or i + 1 == len(steps):
        print(
          f"step {i + 1}, {time.monotonic() - start:.0f} s, loss {total / weight:.4f}", flush=True
        )
        total, weight = 0.0, 0.0
  half = jax.tree.map(lambda x: x.astype(jnp.float16), train.model.adapter)
  checkpoints.export_adapter(
    train.model.with_trainable(half), out, base=config.model.path, tokenizer=tokenizer
  )
  print(f"written: {out}")


def encode(
  asked: judge.Question, documents: dict[str, list[training_claims.Claim]], size: int
) -> Iterator[Group]:
  """Groups of `size` sentences with their `fitting.claim_weights`; too long ones are left out."""
  weight = iter(fitting.claim_weights(documents))
  for document, own in documents.items():

    def ids(sentence, document=document):
      return prompts.encode_chat(asked.tokenizer, asked.messages(document, sentence))

    probe = ids(shared_document.PROBE)
    rows = [(ids(claim.sentence), claim.supported, next(weight)) for claim in own]
    for at in range(0, len(rows), size):
      some = rows[at : at + size]
      length = min(shared_document.common_prefix(row[0], probe) for row in some)
      kept = [(row[length - 1 :], *rest) for row, *rest in some if len(row) - length < RESTS[-1]]
      if kept and length <= PREFIXES[-1]:
        yield Group(some[0][0][:length], *map(list, zip(*kept, strict=True)))


def batches(groups: Sequence[Group], config, rng: random.Random) -> list[Batch]:
  """All groups once, in an order by chance, of one shape in a batch."""
  shapes: dict[tuple[int, int], list[Group]] = {}
  for group in rng.sample(list(groups), len(groups)):
    shapes.setdefault(group.shape, []).append(group)
  size = config.data.batch_size
  found = [
    pack(some[at : at + size], size, config.data.claims, *shape)
    for shape, some in shapes.items()
    for at in range(0, len(some), size)
  ]
  rng.shuffle(found)
  return found


def pack(groups: Sequence[Group], rows: int, claims: int, prefix: int, rest: int) -> Batch:
  """Arrays of one shape, zeros where there is nothing."""
  batch = Batch(
    np.zeros((rows, prefix), np.int32),
    np.ones(rows, np.int32),
    np.zeros((rows, claims, rest), np.int32),
    np.ones((rows, claims), np.int32),
    np.zeros((rows, claims), bool),
    np.zeros((rows, claims), np.float32),
  )
  for b, group in enumerate(groups):
    batch.tokens[b, : len(group.prefix)] = group.prefix
    batch.lengths[b] = len(group.prefix)
    for g, ids in enumerate(group.rests):
      batch.rests[b, g, : len(ids)] = ids
      batch.rest_lengths[b, g] = len(ids)
    batch.supported[b, : len(group.rests)] = group.supported
    batch.weights[b, : len(group.rests)] = group.weights
  return batch


def gradients(asked: judge.Question, model: decoder.DecoderState, batch: Batch) -> update.Gradients:
  """Weighted cross-entropy of Yes against No after each sentence."""

  def loss(trainable, micro: Batch):
    state = model.with_trainable(trainable)
    prefix = decoder.prefill(state, micro.tokens, micro.lengths)
    hidden, _ = decoder.extend(state, prefix, micro.rests, 0)  # [B, G, T, D]
    last = (micro.rest_lengths - 1)[:, :, None, None]
    hidden = jnp.take_along_axis(hidden, last, axis=2)[:, :, 0]  # [B, G, D]
    margin = judge.margin(asked.yes, asked.no, decoder.logits(state, hidden))
    wrong = jax.nn.softplus(jnp.where(micro.supported, -margin, margin))
    total, weight = (wrong * micro.weights).sum(), micro.weights.sum()
    return total, (weight, {"loss/cross_entropy": Weighted(total, weight)})

  return update.accumulate(loss, model, batch, 1)


if __name__ == "__main__":
  cli.run(main, fields=FIELDS, out=Field(None, "folder to write, not there yet", optional=True))

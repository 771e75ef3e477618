"""A document read once for all its sentences, against one full pass a pair.

  python benchmarks/checker.py [--shapes=smollm2|tiny] [--document=1500] [--sentences=40]

Scores 40 sentences of 8 answers against a 1,500-token document with a decoder checker of
random float32 weights, after compilation: the checker's own path, and the same decoder
over each whole prompt, in batches of equal shape. Prints seconds, arithmetic and FLOP/s of
both and, last, the ratio of seconds. Exits with 1 where scores differ by more than 1e-4 or
where full passes run below 80 % of the other's FLOP/s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from asc_jax.checkers import batching
from asc_jax.checkers.judge import yes_or_no
from asc_jax.checkers.shared_document import PREFIX_BUCKETS, REST_BUCKETS, SharedDocument
from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig, Rope

SHAPES = {  # vocabulary, width, MLP width, layers, heads, key/value heads
  "smollm2": (49_152, 576, 1_536, 30, 9, 3),
  "tiny": (4_096, 128, 384, 4, 4, 2),
}
FULL_ROWS = 8  # whole prompts a call


def decoder_config(name: str) -> decoder.DecoderConfig:
  vocabulary, width, mlp, layers, heads, kv_heads = SHAPES[name]
  layer = AttentionConfig(heads, kv_heads, width // heads, Rope(100_000.0))
  return decoder.DecoderConfig("llama", vocabulary, width, mlp, layers, (layer,), tied=True)


def flops(config: decoder.DecoderConfig, tokens: int, context: float) -> float:
  """Arithmetic of tokens that attend to `context` places on average, without the output layer."""
  (layer,) = config.group
  assert isinstance(layer, AttentionConfig)
  heads = layer.head_dim * (2 * layer.heads + 2 * layer.kv_heads)
  weights = config.width * (heads + 3 * config.mlp_width)
  attention = 2 * layer.heads * layer.head_dim * context
  return 2.0 * config.num_layers * tokens * (weights + attention)


def prompts(vocabulary: int, document: int, sentences: int) -> list[list[int]]:
  """One document, and sentences of 20 to 40 tokens with the end of the prompt."""
  rng = np.random.default_rng(0)
  shared = rng.integers(0, vocabulary, document).tolist()
  rests = [rng.integers(0, vocabulary, rng.integers(20, 41)).tolist() for _ in range(sentences)]
  return [shared + rest for rest in rests]


def timed(score, rows: list[list[int]], runs: int) -> tuple[np.ndarray, float]:
  """Scores and the median seconds of some runs, after a few rows that compile."""
  score(sorted(rows, key=len)[:: len(rows) - 1])
  seconds = []
  for _ in range(runs):
    start = time.perf_counter()
    result = np.asarray(score(rows))
    seconds.append(time.perf_counter() - start)
  return result, statistics.median(seconds)


def main(shapes: str, document: int, sentences: int) -> int:
  config = decoder_config(shapes)
  # A flat random model would give 0.5 everywhere.
  state = decoder.init(config, jax.random.key(0))
  state.params["embed"]["embedding"] *= 10
  yes, no = (jnp.arange(config.vocab_size) % 50 == i for i in (0, 1))

  def probability(logits):
    return yes_or_no(yes, no, logits)

  checker = SharedDocument(state, None, None, probability, weights_hash="", window=32768)
  rows = prompts(config.vocab_size, document, sentences)
  width = next(b for b in PREFIX_BUCKETS if b >= document) + REST_BUCKETS[0]

  @jax.jit
  def whole(state, tokens, lengths):
    prefix = decoder.prefill(state, tokens, jnp.maximum(lengths, 1))
    last = jnp.take_along_axis(tokens, jnp.maximum(lengths - 1, 0)[:, None], axis=1)
    hidden, _ = decoder.extend(state, prefix, last[:, :, None], 0)  # [R, 1, 1, D]
    return probability(decoder.logits(state, hidden[:, 0, 0]))

  def full(rows):
    return batching.bucketed(
      rows,
      lambda tokens, lengths: whole(state, tokens, lengths),
      buckets=(width,),
      tokens_per_batch=FULL_ROWS * width,
    )

  shared_scores, shared_s = timed(lambda some: checker.extend_rows(some, document), rows, 3)
  full_scores, full_s = timed(full, rows, 1)
  difference = float(np.abs(shared_scores - full_scores).max())

  tail = sum(len(r) - document for r in rows)
  shared_flops = flops(config, document, document / 2) + flops(config, tail, document)
  full_flops = flops(config, sum(map(len, rows)), document / 2)
  for name, seconds, work in (
    ("shared document", shared_s, shared_flops),
    ("one pass a pair", full_s, full_flops),
  ):
    rate = work / seconds / 1e9
    print(f"{name}: {seconds:8.2f} s {work / 1e9:10.1f} GFLOP {rate:8.1f} GFLOP/s")
  print(f"scores from {shared_scores.min():.2f} to {shared_scores.max():.2f}")
  print(f"largest difference {difference:.1e}; arithmetic alone: {full_flops / shared_flops:.1f}x")
  fair = full_flops / full_s >= 0.8 * shared_flops / shared_s
  if not fair:
    print("the full passes ran below 80 % of the other's FLOP/s: no fair comparison")
  print(f"{full_s / shared_s:.1f}x")
  return int(difference > 1e-4 or not fair)


if __name__ == "__main__":
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--shapes", choices=SHAPES, default="smollm2")
  parser.add_argument("--document", type=int, default=1500)
  parser.add_argument("--sentences", type=int, default=40)
  sys.exit(main(**vars(parser.parse_args())))

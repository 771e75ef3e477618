"""Compile time of the whole update with few and with many layers.

  python benchmarks/compile_time.py [--layers=4,32] [--runs=3]

The update is `rl/update.py`'s: credit to AdamW, on a decoder of small widths, everything
but the number of layers alike. Layers are one scanned block, so that the program, and the
time to trace and compile it, hardly grow with them. Numbers of layers alternate; times are
medians of fresh compilations, in processor seconds, which other work on the machine does not
change. The last line is how much longer many layers take; from 25 % on the exit status is 1.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time

import jax
import jax.numpy as jnp
from step import batch_of

from asc_jax import config as config_lib
from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig
from asc_jax.rl import update
from asc_jax.types import Prompts, Rollout

B, G, P, T = 2, 4, 128, 32


def shapes() -> tuple[Prompts, Rollout]:
  tokens = jnp.zeros((B, G, T), jnp.int32)
  prompts = Prompts(jnp.zeros((B, P), jnp.int32), jnp.full(B, P), jnp.zeros(B, jnp.uint32))
  rollout = Rollout(
    tokens, jnp.full((B, G), T), jnp.zeros(tokens.shape), jnp.ones((B, G), jnp.bool_)
  )
  return prompts, rollout


def compile_seconds(layers: int) -> float:
  """Processor seconds to trace and compile one update, of shapes alone."""
  jax.clear_caches()
  layer = AttentionConfig(heads=4, kv_heads=2, head_dim=16)
  model = decoder.DecoderConfig("llama", 512, 64, 128, layers, (layer,))
  config = config_lib.default_config()
  config.data.batch_size = B
  settings = update.objective(config)
  optimizer, schedule = update.make_optimizer(config.optimizer, 100)

  def start():
    state = decoder.init(model, jax.random.key(0))
    counter = jnp.zeros((), jnp.int32)
    batch = batch_of(*shapes(), jax.random.key(1))
    reference = batch._replace(ref_logps=batch.rollout.logps)
    return update.TrainState(state, optimizer.init(state.trainable()), counter, counter), reference

  arguments = jax.eval_shape(start)
  step = update.make_update(
    optimizer, schedule, functools.partial(update.gradients, settings=settings)
  )
  begun = time.process_time()
  step.lower(*arguments).compile()
  return time.process_time() - begun


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--layers", default="4,32")
  parser.add_argument("--runs", type=int, default=3)
  args = parser.parse_args()
  few, many = map(int, args.layers.split(","))
  compile_seconds(few)  # whatever is loaded only once
  seconds: dict[int, list[float]] = {few: [], many: []}
  for _ in range(args.runs):
    for layers, found in seconds.items():
      found.append(compile_seconds(layers))
  medians = {layers: statistics.median(found) for layers, found in seconds.items()}
  for layers, median in medians.items():
    print(f"{layers:3d} layers: {median:.2f} processor seconds")
  more = medians[many] / medians[few] - 1
  print(f"{many} layers take {more:+.0%}")
  return int(abs(more) >= 0.25)


if __name__ == "__main__":
  sys.exit(main())

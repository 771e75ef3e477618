"""Times one GRPO step of SmolLM2-135M's shape in float32, full fine-tune.

  python benchmarks/step.py [--prompt=512] [--answer=64] [--group=8] [--runs=3] [--remat=dots]

Prints the machine's float32 matrix-product and copy rates, then medians of the
generation, the reference, the gradients (forward and backward), the update (these and
AdamW) and the whole step, and the peak memory of the process. Weights are
random: times do not depend on their values, and answers run to their full length.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flops import matmul_flops

from asc_jax import config as config_lib
from asc_jax import sharding
from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig, Rope
from asc_jax.rl import sampler, update
from asc_jax.types import Batch, Prompts, Scores, Sentences


def smollm2(**compute) -> decoder.DecoderConfig:
  """The shape of SmolLM2-135M."""
  layer = AttentionConfig(heads=9, kv_heads=3, head_dim=64, rope=Rope(100_000.0))
  return decoder.DecoderConfig(
    family="llama",
    vocab_size=49_152,
    width=576,
    mlp_width=1_536,
    num_layers=30,
    group=(layer,),
    tied=True,
    **compute,
  )


def timed(function, runs: int) -> float:
  """Median seconds of `function()`, after one call that compiles."""
  jax.block_until_ready(function())
  seconds = []
  for _ in range(runs):
    start = time.perf_counter()
    jax.block_until_ready(function())
    seconds.append(time.perf_counter() - start)
  return statistics.median(seconds)


def machine_rates(runs: int = 5) -> tuple[float, float]:
  """(GFLOP/s of a 2,048-square float32 product, GB/s read and written by a copy)."""
  a = jnp.ones((2048, 2048), jnp.float32)
  product = timed(functools.partial(jax.jit(jnp.matmul), a, a), runs)
  source = np.ones(2**27, np.float32)  # 512 MB, well beyond any cache
  target = np.empty_like(source)
  copy = timed(lambda: np.copyto(target, source), runs)
  return 2 * 2048**3 / product / 1e9, 2 * source.nbytes / copy / 1e9


def batch_of(prompts: Prompts, rollout, key) -> Batch:
  """Every answer is two sentences, and a random half of them earn credit."""
  shape, length = rollout.tokens.shape[:2], rollout.tokens.shape[2]
  ids = jnp.broadcast_to((jnp.arange(length) >= length // 2).astype(jnp.int32), (*shape, length))
  mask = jnp.ones((*shape, 2), bool)
  none = jnp.zeros((*shape, 2), bool)
  supported = jax.random.uniform(key, (*shape, 2))
  return Batch(
    prompts,
    rollout,
    jnp.ones((*shape, length), bool),
    Sentences(ids, mask, none, mask, none, jnp.zeros(shape)),
    Scores(supported, jnp.zeros_like(supported)),
    None,
    None,
  )


class Step(NamedTuple):
  """Seconds of a step's parts and the FLOPs of the update's matrix products."""

  generation: float
  reference: float
  gradients: float  # forward and backward
  update: float  # the same and AdamW
  flops: float


def measure(args: argparse.Namespace) -> Step:
  """Compiles and times each part of a step on one batch of answers."""
  config = config_lib.default_config()
  config.data.batch_size = 1
  config.rollout.temperature = 1.0
  settings = update.objective(config)
  optimizer, schedule = update.make_optimizer(config.optimizer, 100)
  init = functools.partial(decoder.init, smollm2(remat=args.remat))
  model = jax.jit(init)(jax.random.key(0))
  reference = jax.tree.map(jnp.copy, model)
  train = update.init(model, optimizer, sharding.make_mesh())
  tokens = jax.random.randint(jax.random.key(1), (1, args.prompt), 3, 49_152)
  prompts = Prompts(tokens, jnp.array([args.prompt]), jnp.array([0], jnp.uint32))
  sampling = sampler.Sampling(args.group, args.answer, temperature=1.0)

  def draw():
    return sampler.sample(reference, prompts, jax.random.key(2), sampling)

  generation = timed(draw, args.runs)
  batch = batch_of(prompts, draw(), jax.random.key(3))

  def score():
    return update.log_probs(reference, prompts, batch.rollout.tokens, settings)

  scored = timed(score, args.runs)
  batch = batch._replace(ref_logps=score())
  gradients = functools.partial(update.gradients, settings=settings)
  compiled = jax.jit(gradients)
  differentiated = timed(lambda: compiled(reference, batch), args.runs)
  step = update.make_update(optimizer, schedule, gradients).lower(train, batch).compile()

  def updated():
    nonlocal train
    train, _ = step(train, batch)
    return train.step

  seconds = timed(updated, args.runs)
  return Step(generation, scored, differentiated, seconds, matmul_flops(step))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--prompt", type=int, default=512)
  parser.add_argument("--answer", type=int, default=64)
  parser.add_argument("--group", type=int, default=8)
  parser.add_argument("--runs", type=int, default=3)
  parser.add_argument(
    "--remat", default="dots", choices=("block", "dots", "none"), help="what is computed again"
  )
  args = parser.parse_args()

  gflops, gbytes = machine_rates()
  print(f"machine: {gflops:.0f} GFLOP/s float32 matrix product, {gbytes:.1f} GB/s copy")
  step = measure(args)
  made = args.group * args.answer
  print(
    f"generation  {step.generation:7.2f} s  ({made / step.generation:.1f} tokens/s, "
    f"P = {args.prompt}, T = {args.answer}, G = {args.group})"
  )
  print(f"reference   {step.reference:7.2f} s")
  print(f"gradients   {step.gradients:7.2f} s")
  print(
    f"update      {step.update:7.2f} s  (gradients and AdamW: {step.flops / 1e9:.0f} GFLOP, "
    f"{step.flops / step.update / 1e9:.0f} GFLOP/s)"
  )
  print(f"whole step  {step.generation + step.reference + step.update:7.2f} s")
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"peak memory {peak:7.2f} GB")
  scale = 285 / gflops
  print(
    f"at 285 GFLOP/s: generation {step.generation / scale:.1f} s, "
    f"reference, forward and backward {(step.reference + step.gradients) / scale:.1f} s"
  )


if __name__ == "__main__":
  main()

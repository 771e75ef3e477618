"""Times one GRPO step of SmolLM2-135M's shape in float32, full fine-tune.

  python benchmarks/step.py [--prompt=512] [--answer=64] [--group=8] [--runs=3]

Prints the machine's float32 matrix-product and copy rates, then medians of the
generation, the reference, the update (forward, backward and AdamW) and the whole
step, the FLOPs of the update's matrix products, and the peak memory of the process. Weights are
random: times do not depend on their values, and answers run to their full length.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import time

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


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--prompt", type=int, default=512)
  parser.add_argument("--answer", type=int, default=64)
  parser.add_argument("--group", type=int, default=8)
  parser.add_argument("--runs", type=int, default=3)
  args = parser.parse_args()

  gflops, gbytes = machine_rates()
  print(f"machine: {gflops:.0f} GFLOP/s float32 matrix product, {gbytes:.1f} GB/s copy")

  config = config_lib.default_config()
  config.data.batch_size = 1
  config.rollout.temperature = 1.0
  settings = update.objective(config)
  mesh = sharding.make_mesh()
  optimizer, schedule = update.make_optimizer(config.optimizer, 100)
  model = jax.jit(functools.partial(decoder.init, smollm2()))(jax.random.key(0))
  reference = jax.tree.map(jnp.copy, model)
  train = update.init(model, optimizer, mesh)
  tokens = jax.random.randint(jax.random.key(1), (1, args.prompt), 3, 49_152)
  prompts = Prompts(tokens, jnp.array([args.prompt]), jnp.array([0], jnp.uint32))
  draw = functools.partial(
    sampler.sample,
    settings=sampler.Sampling(args.group, args.answer, temperature=1.0),
  )
  generation = timed(lambda: draw(reference, prompts, jax.random.key(2)), args.runs)
  batch = batch_of(prompts, draw(reference, prompts, jax.random.key(2)), jax.random.key(3))
  scored = timed(
    lambda: update.log_probs(reference, batch.prompts, batch.rollout.tokens, settings), args.runs
  )
  batch = batch._replace(
    ref_logps=update.log_probs(reference, batch.prompts, batch.rollout.tokens, settings)
  )
  step = (
    update.make_update(optimizer, schedule, functools.partial(update.gradients, settings=settings))
    .lower(train, batch)
    .compile()
  )
  seconds = []
  for _ in range(args.runs + 1):
    start = time.perf_counter()
    train, _ = step(train, batch)
    jax.block_until_ready(train.step)
    seconds.append(time.perf_counter() - start)
  updated = statistics.median(seconds[1:])
  flops = matmul_flops(step.as_text())

  name = f"P = {args.prompt}, T = {args.answer}, G = {args.group}"
  made = args.group * args.answer
  print(f"generation  {generation:7.2f} s  ({made / generation:.1f} tokens/s, {name})")
  print(f"reference   {scored:7.2f} s")
  print(
    f"update      {updated:7.2f} s  ({flops / 1e9:.0f} GFLOP, {flops / updated / 1e9:.0f} GFLOP/s)"
  )
  print(f"whole step  {generation + scored + updated:7.2f} s")
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"peak memory {peak:7.2f} GB")
  scale = 285 / gflops
  print(
    f"at 285 GFLOP/s: generation {generation / scale:.1f} s, "
    f"reference and update {(scored + updated) / scale:.1f} s"
  )


if __name__ == "__main__":
  main()

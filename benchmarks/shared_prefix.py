"""The update with the prompt computed once, beside the same with it repeated.

  python benchmarks/shared_prefix.py [--prompt=512] [--answer=64] [--group=8]

Both arms run the same decoder of SmolLM2-135M's shape in float32, recompute the same
and take logits on answer positions only: one question with G answers, or G questions
with one answer each. An update is the GRPO loss, forward and backward, and AdamW over
all parameters. Gradients must agree to 1e-4, leaf by leaf, and the repeated arm must
reach 80 % of the other's FLOP/s, so that it is no straw man. Runs alternate; times are
medians. The last line is how many times faster the shared prefix is; exit status 1
where that is under --least, by default 3, or 3.5 for prompts of 1,024 and more.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import optax
from flops import matmul_flops
from step import machine_rates, smollm2

from asc_jax.models import decoder
from asc_jax.objective import losses

CHUNK = 256  # answer positions whose logits exist at one time
OPTIMIZER = optax.adamw(1e-6)


def gradient(state, params, tokens, answers, weights):
  """d loss / d params of B questions with G answers each, no padding."""
  lengths = jnp.full((tokens.shape[0],), tokens.shape[1], jnp.int32)

  def loss(params):
    logps = decoder.answer_log_probs(
      state.with_trainable(params), tokens, lengths, answers, temperature=1.0, chunk=CHUNK
    )
    old = jax.lax.stop_gradient(logps)
    total, count, _ = losses.grpo_loss(
      logps,
      old,
      old - 0.1,  # a reference a little way off, so that the KL has a gradient
      weights,
      jnp.ones(answers.shape, bool),
      beta=0.04,
      clip_low=0.2,
      clip_high=0.2,
      normalise="answer",
    )
    return total / count

  return jax.grad(loss)(params)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def apply(params, moments, grads):
  changes, moments = OPTIMIZER.update(grads, moments, params)
  return optax.apply_updates(params, changes), moments


class Arm:
  """One way of laying out the same answers."""

  def __init__(self, state, *batch):
    self.batch = batch
    step = jax.jit(functools.partial(gradient, state))
    self.gradient = step.lower(state.params, *batch).compile()
    self.flops = matmul_flops(self.gradient)
    self.backward: list[float] = []
    self.total: list[float] = []

  def run(self, params, moments):
    """One timed update."""
    start = time.perf_counter()
    grads = jax.block_until_ready(self.gradient(params, *self.batch))
    self.backward.append(time.perf_counter() - start)
    result = jax.block_until_ready(apply(params, moments, grads))
    self.total.append(time.perf_counter() - start)
    return result

  def rate(self) -> float:
    return self.flops / statistics.median(self.backward)


def largest_difference(grads, others) -> float:
  """max over leaves of |a - b| / |b|."""
  return max(
    float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(others), strict=True)
  )


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--prompt", type=int, default=512)
  parser.add_argument("--answer", type=int, default=64)
  parser.add_argument("--group", type=int, default=8)
  parser.add_argument("--runs", type=int, default=3)
  parser.add_argument("--remat", choices=("block", "dots", "none"), default="block")
  parser.add_argument("--least", type=float)
  args = parser.parse_args()
  least = args.least or (3.5 if args.prompt >= 1024 else 3.0)

  gflops, gbytes = machine_rates()
  print(f"machine: {gflops:.0f} GFLOP/s float32 matrix product, {gbytes:.1f} GB/s copy")
  state = jax.jit(functools.partial(decoder.init, smollm2(remat=args.remat)))(jax.random.key(0))
  keys = jax.random.split(jax.random.key(1), 3)
  tokens = jax.random.randint(keys[0], (1, args.prompt), 0, state.config.vocab_size)
  shape = (1, args.group, args.answer)
  answers = jax.random.randint(keys[1], shape, 0, state.config.vocab_size)
  weights = jax.random.normal(keys[2], shape)
  rows = (args.group, 1, args.answer)
  arms = {
    "shared": Arm(state, tokens, answers, weights),
    "repeated": Arm(
      state,
      jnp.repeat(tokens, args.group, axis=0),
      answers.reshape(rows),
      weights.reshape(rows),
    ),
  }
  difference = largest_difference(
    *(arm.gradient(state.params, *arm.batch) for arm in arms.values())
  )
  params, moments = state.params, jax.jit(OPTIMIZER.init)(state.params)
  params, moments = apply(params, moments, jax.tree.map(jnp.zeros_like, params))  # compiles
  for _ in range(args.runs):
    for arm in arms.values():
      params, moments = arm.run(params, moments)

  print(f"P = {args.prompt}, T = {args.answer}, G = {args.group}; recomputing {args.remat}")
  for name, arm in arms.items():
    backward, total = statistics.median(arm.backward), statistics.median(arm.total)
    print(
      f"{name:<9} update {total:6.2f} s: forward and backward {backward:6.2f} s "
      f"({arm.flops / 1e9:5.0f} GFLOP, {arm.rate() / 1e9:4.0f} GFLOP/s), AdamW {total - backward:.2f} s"
    )
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  fair = arms["repeated"].rate() / arms["shared"].rate()
  fewer = arms["repeated"].flops / arms["shared"].flops
  ratio = statistics.median(arms["repeated"].total) / statistics.median(arms["shared"].total)
  print(f"gradients differ by {difference:.1e}; peak memory {peak:.1f} GB")
  print(f"the repeated arm does {fewer:.1f} times the FLOPs at {fair:.0%} of the FLOP/s")
  failures = {
    "gradients differ by more than 1e-4": difference > 1e-4,
    "the repeated arm is below 80 % of the other's FLOP/s": fair < 0.8,
    f"the shared prefix is not {least}x as fast": ratio < least,
  }
  for failure in (text for text, failed in failures.items() if failed):
    print(f"FAILED: {failure}")
  print(f"{ratio:.1f}x")
  return int(any(failures.values()))


if __name__ == "__main__":
  sys.exit(main())

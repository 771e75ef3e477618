"""The benchmarks' count of a compiled program's products."""

import pathlib
import runpy

import jax
import jax.numpy as jnp

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent / "benchmarks"
matmul_flops = runpy.run_path(str(BENCHMARKS / "flops.py"))["matmul_flops"]


def compiled(function, *shapes):
  arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
  return jax.jit(function).lower(*arguments).compile()


def test_a_loop_counts_as_often_as_it_runs():
  def loop(x, weights):  # 7 products of [5, 16] and [16, 16]
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

  assert matmul_flops(compiled(loop, (5, 16), (7, 16, 16))) == 7 * 2 * 5 * 16 * 16


def test_batches_and_gradients_are_counted():
  def loss(a, b):  # forward, and one product for each gradient
    return jnp.sum(jnp.einsum("gij,gjk->gik", a, b) ** 2)

  gradients = compiled(jax.grad(loss, argnums=(0, 1)), (3, 40, 50), (3, 50, 60))
  assert matmul_flops(gradients) == 3 * (2 * 3 * 40 * 50 * 60)


def test_the_dearer_branch_counts():
  def either(flag, a):
    return jax.lax.cond(flag[0] > 0, lambda: a @ a, lambda: a @ (a @ a))

  assert matmul_flops(compiled(either, (1,), (48, 48))) == 2 * 2 * 48**3

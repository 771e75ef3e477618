"""Every backend of attention against a loop over single queries in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax import sharding
from asc_jax.models import attention
from asc_jax.models.layers import KV

LENGTHS = np.array([3, 130], np.int32)


def inputs(batch=2, heads=2, groups=3, rep=2, length=5, prefix=140, width=8, seed=0):
  rng = np.random.default_rng(seed)

  def draw(*shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)

  q = draw(batch, heads, groups, rep, length, width)
  own = KV(*(draw(batch, heads, groups, length, width) for _ in range(2)))
  shared = KV(*(draw(batch, heads, prefix, width) for _ in range(2))) if prefix else None
  return q, own, shared


def loop(q, own, prefix, lengths):
  """One query at a time: softmax over what it may see."""
  q, own = np.asarray(q, np.float64), jax.tree.map(np.asarray, own)
  out = np.zeros(q.shape)
  for b, k, g, r, t in np.ndindex(q.shape[:-1]):
    keys, values = own.k[b, k, g, : t + 1], own.v[b, k, g, : t + 1]
    if prefix is not None:
      n = lengths[b]
      keys = np.concatenate([prefix.k[b, k, :n], keys])
      values = np.concatenate([prefix.v[b, k, :n], values])
    scores = keys @ q[b, k, g, r, t] / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max())
    out[b, k, g, r, t] = weights @ values / weights.sum()
  return out


@functools.partial(jax.jit, static_argnums=0)
def run(backend, q, own, prefix, lengths):
  if backend in ("reference", "blockwise"):
    return attention.attend(q, own, prefix, lengths, 0, backend=backend)
  kernel = {
    "splash": functools.partial(attention._splash, interpret=True),
    "cudnn": functools.partial(attention._cudnn, implementation="xla"),
  }[backend]
  return kernel(q * q.shape[-1] ** -0.5, own, prefix, lengths)


SHAPES = {
  "answers": {},
  "answers over a block": {"groups": 2, "length": 131},
  "prompt": {"groups": 1, "prefix": 0, "length": 7},
  "prompt over blocks": {"groups": 1, "prefix": 0, "length": 261},
}
BACKENDS = ("reference", "blockwise", "splash", "cudnn")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_equal_a_loop(backend, shape):
  q, own, prefix = inputs(**SHAPES[shape])
  got = run(backend, q, own, prefix, LENGTHS)
  np.testing.assert_allclose(got, loop(q, own, prefix, LENGTHS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", ["answers", "prompt over blocks"])
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_gradients_equal_the_plain_softmaxs(backend, shape):
  q, own, prefix = inputs(**SHAPES[shape])
  weights = np.random.default_rng(1).normal(size=q.shape).astype(np.float32)

  def loss(backend, q, own, prefix):
    return jnp.sum(run(backend, q, own, prefix, LENGTHS) * weights)

  args = (q, own) if prefix is None else (q, own, prefix)
  pad = () if prefix is not None else (None,)

  def grads(backend):
    return jax.grad(lambda args: loss(backend, *args, *pad))(args)

  for ours, theirs in zip(
    jax.tree.leaves(grads(backend)), jax.tree.leaves(grads("reference")), strict=True
  ):
    assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


def test_decoding_sees_only_what_is_written():
  """A cache longer than the answer so far: later places hold anything."""
  q, own, prefix = inputs(length=6)
  wanted = loop(q, own, prefix, LENGTHS)
  for t in range(6):
    cache = jax.tree.map(lambda x, t=t: x.at[:, :, :, t + 1 :].set(1e3), own)
    got = attention.attend(
      q[..., t : t + 1, :], cache, prefix, LENGTHS, jnp.int32(t), backend="auto"
    )
    np.testing.assert_allclose(got[..., 0, :], wanted[..., t, :], rtol=0, atol=1e-5)


def test_an_empty_prefix_gives_finite_values_and_gradients():
  q, own, prefix = inputs()
  none = np.zeros((2,), np.int32)

  def loss(q, backend):
    return jnp.sum(run(backend, q, own, prefix, none) ** 2)

  wanted = loop(q, own, None, none)
  for backend in BACKENDS:
    np.testing.assert_allclose(run(backend, q, own, prefix, none), wanted, rtol=0, atol=1e-5)
    assert np.isfinite(jax.grad(loss)(q, backend)).all()


@pytest.mark.parametrize("batch, heads", [(4, 2), (2, 3)], ids=["split", "whole"])
def test_the_kernel_runs_on_each_devices_questions_and_heads(batch, heads):
  """What the mesh's axes do not divide stays whole on each device."""
  q, own, prefix = inputs(batch=batch, heads=heads)
  lengths = np.resize(LENGTHS, batch)
  with jax.set_mesh(sharding.make_mesh(2, 2, 2)):
    got = run("splash", q, own, prefix, lengths)
  np.testing.assert_allclose(got, loop(q, own, prefix, lengths), rtol=0, atol=1e-5)

"""The segment kernel against loops over tokens, and as a pair of adjoints."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_jax.objective.spread import gather_sum, spread

B, G, S, T = 2, 3, 4, 9


def case(seed):
  rng = np.random.default_rng(seed)
  values = rng.normal(size=(B, G, S)).astype(np.float32)
  weights = rng.normal(size=(B, G, T)).astype(np.float32)
  return values, weights, rng.integers(-1, S, (B, G, T)).astype(np.int32)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, -2.5]))
def test_spread_and_gather_sum_equal_loops(seed, fill):
  values, weights, ids = case(seed)
  tokens = jax.jit(spread)(values, ids, fill)
  sums = jax.jit(gather_sum, static_argnums=2)(weights, ids, S)
  expected = np.zeros((B, G, S))
  for b, g, t in np.ndindex(B, G, T):
    i = ids[b, g, t]
    assert tokens[b, g, t] == (values[b, g, i] if i >= 0 else np.float32(fill))
    if i >= 0:
      expected[b, g, i] += weights[b, g, t]
  np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-6)


def test_tokens_of_no_sentence_do_not_read_the_last_one():
  values = jnp.array([[[1.0, 2.0, 7.0]], [[3.0, 4.0, 9.0]]])
  ids = jnp.array([[[-1, 0, 1, -1]], [[2, -1, -1, 0]]])
  np.testing.assert_array_equal(spread(values, ids), [[[0, 1, 2, 0]], [[9, 0, 0, 3]]])
  sums = gather_sum(jnp.ones((2, 1, 4)), ids, 3)
  np.testing.assert_array_equal(sums, [[[1, 1, 0]], [[1, 0, 1]]])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_two_are_adjoint_and_each_others_gradient(seed):
  values, weights, ids = case(seed)
  left = jnp.vdot(spread(values, ids), weights)
  right = jnp.vdot(values, gather_sum(weights, ids, S))
  np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)

  down = jax.jit(jax.grad(lambda v: jnp.vdot(spread(v, ids), weights)))(values)
  np.testing.assert_allclose(down, gather_sum(weights, ids, S), rtol=1e-5, atol=1e-6)
  up = jax.jit(jax.grad(lambda w: jnp.vdot(values, gather_sum(w, ids, S))))(weights)
  np.testing.assert_array_equal(up, spread(values, ids))

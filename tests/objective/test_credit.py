"""Credits against a loop over sentences."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_jax.objective.credit import authored_credit, copy_penalised, support_share

B, G, S = 2, 3, 4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_credit_is_earned_by_the_sentences_that_pass_all_three_tests(seed):
  rng = np.random.default_rng(seed)
  copied, vacuous, supported, mask = rng.integers(0, 2, (4, B, G, S)).astype(bool)
  credit = jax.jit(authored_credit)(copied, vacuous, supported, mask)
  share = jax.jit(support_share)(supported, mask)
  assert credit.dtype == share.dtype == jnp.float32
  for b, g in np.ndindex(B, G):
    kept = [s for s in range(S) if mask[b, g, s]]
    for s in range(S):
      earned = s in kept and not copied[b, g, s] and not vacuous[b, g, s] and supported[b, g, s]
      assert credit[b, g, s] == float(earned)
    expected = np.mean([supported[b, g, s] for s in kept]) if kept else 0.0
    np.testing.assert_allclose(share[b, g], expected, rtol=1e-6)


def test_padding_may_hold_anything():
  unscored = jnp.array([[[1.0, jnp.nan]]])
  mask = jnp.array([[[True, False]]])
  zeros = jnp.zeros((1, 1, 2))
  np.testing.assert_array_equal(authored_credit(zeros, zeros, unscored, mask), [[[1.0, 0.0]]])
  np.testing.assert_array_equal(support_share(unscored, mask), [[1.0]])


def test_copy_penalty():
  R = jnp.array([[1.0, 0.5, 0.0], [0.25, 1.0, 0.75]])
  copy = jnp.array([[0.5, 0.0, 1.0], [1.0, 0.25, 0.5]])
  np.testing.assert_allclose(
    copy_penalised(R, copy, 2.0), [[0.0, 0.5, -2.0], [-1.75, 0.5, -0.25]], atol=1e-7
  )

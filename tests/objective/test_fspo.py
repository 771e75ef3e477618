"""FSPO's sign rule against the paper's sentence read as a loop."""

import jax
import numpy as np

from asc_jax.objective import fspo


def test_sign_adjusted_is_the_loop():
  rng = np.random.default_rng(5)
  shape = (2, 3, 5, 7)  # B, G, S, T
  b, g, s, t = shape
  advantages = rng.normal(size=(b, g)).astype(np.float32)
  advantages[1, 2] = 0.0
  verdicts = rng.choice([-0.3, 0.0, 2.0], (b, g, s)).astype(np.float32)
  ids = rng.integers(-1, s, (b, g, t)).astype(np.int32)
  expected = np.zeros((b, g, t), np.float32)
  for i, j, k in np.ndindex(b, g, t):
    value = advantages[i, j]
    if ids[i, j, k] >= 0:
      verdict = verdicts[i, j, ids[i, j, k]]
      if verdict:  # 0 is no verdict
        m = 1 if verdict > 0 else -1
        value = value if m * value >= 0 else -value
    expected[i, j, k] = value
  found = jax.jit(fspo.sign_adjusted)(advantages, verdicts, ids)
  np.testing.assert_array_equal(found, expected)
  assert (expected > 0).any() and (expected < 0).any() and (expected == 0).any()

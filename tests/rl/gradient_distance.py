"""How far two trees of gradients lie apart."""

import jax
import jax.numpy as jnp


def relative(a, b):
  """Largest ||a - b|| / ||b|| over the leaves of two trees."""
  gaps = jax.tree.map(lambda x, y: jnp.linalg.norm(x - y) / jnp.linalg.norm(y), a, b)
  return max(float(g) for g in jax.tree.leaves(gaps))

"""FSPO: a checker's verdict on each sentence sets the sign of its tokens' advantages."""

import jax
import jax.numpy as jnp

from asc_jax.objective.spread import spread


def sign_adjusted(advantages: jax.Array, verdicts: jax.Array, sentence_ids: jax.Array) -> jax.Array:
  r"""Turns an answer's advantage where it disagrees with the sentence's verdict.

  .. math::
    A_t \leftarrow A_t \;\text{ if }\; m_{i_t} A_t \ge 0 \;\text{ else }\; -A_t, \qquad
    m = \mathrm{sign}(v), \quad v > 0 \text{ if supported, } < 0 \text{ if not}

  Args:
    advantages: float32 [B, G], GRPO's, one an answer.
    verdicts: float32 [B, G, S], one a sentence; only the sign counts, and 0 is no verdict.
    sentence_ids: int32 [B, G, T], -1 on tokens of no sentence, which keep the answer's,
      as those of a sentence without a verdict do.

  Returns:
    float32 [B, G, T].

  Examples:
    >>> verdicts = jnp.array([[[1.0, -1.0], [1.0, -1.0]]])
    >>> ids = jnp.array([[[0, 1, -1], [0, 1, -1]]])
    >>> sign_adjusted(jnp.array([[1.0, -0.5]]), verdicts, ids)
    Array([[[ 1. , -1. ,  1. ],
            [ 0.5, -0.5, -0.5]]], dtype=float32)
  """
  sign = spread(jnp.sign(verdicts), sentence_ids)  # [B, G, T], 0: no sentence, no verdict
  per_token = jnp.broadcast_to(advantages[:, :, None], sentence_ids.shape)
  return jnp.where(sign * per_token >= 0, per_token, -per_token)

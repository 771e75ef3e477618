"""From sentences to their tokens, and back: the kernel of sentence-level credit.

The two functions are each other's adjoint, <spread(v), w> = <v, gather_sum(w)>, so
the gradient of one is the other. Both run inside the jitted loss.
"""

import jax
import jax.numpy as jnp


def spread(values: jax.Array, sentence_ids: jax.Array, fill: float = 0.0) -> jax.Array:
  r"""Gives every token the value of its sentence.

  .. math::
    y_t = v_{i_t} \;\text{ if }\; i_t \ge 0 \;\text{ else fill}

  Args:
    values: float32 [B, G, S], one a sentence.
    sentence_ids: int32 [B, G, T] in [-1, S), -1 on tokens of no sentence.
    fill: value of the tokens of no sentence.

  Returns:
    float32 [B, G, T].

  Examples:
    >>> values = jnp.array([[[1.0, -1.0], [0.5, 3.0]]])
    >>> ids = jnp.array([[[0, 0, 1, -1], [-1, 0, 0, 0]]])
    >>> spread(values, ids)
    Array([[[ 1. ,  1. , -1. ,  0. ],
            [ 0. ,  0.5,  0.5,  0.5]]], dtype=float32)
  """
  inside = sentence_ids >= 0  # [B, G, T]
  # Mask first: as an index, -1 would read the last sentence.
  index = jnp.where(inside, sentence_ids, 0)
  return jnp.where(inside, jnp.take_along_axis(values, index, axis=-1), fill)


def gather_sum(values: jax.Array, sentence_ids: jax.Array, num_sentences: int) -> jax.Array:
  r"""Sums the values of each sentence's tokens.

  .. math::
    y_s = \sum_{t : i_t = s} v_t

  Args:
    values: float32 [B, G, T], one a token.
    sentence_ids: int32 [B, G, T] in [-1, S), -1 on tokens of no sentence.
    num_sentences: S.

  Returns:
    float32 [B, G, S], 0 for a sentence without tokens.

  Examples:
    >>> values = jnp.array([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ids = jnp.array([[[0, 0, 1, -1], [-1, 0, 0, 0]]])
    >>> gather_sum(values, ids, 2)
    Array([[[ 3.,  3.],
            [21.,  0.]]], dtype=float32)
  """

  def one(v, i):  # [T], [T] -> [S]
    return jnp.zeros(num_sentences, v.dtype).at[i].add(v, mode="drop")

  # One past the end is dropped; -1 itself would count from the end.
  index = jnp.where(sentence_ids >= 0, sentence_ids, num_sentences)
  return jax.vmap(jax.vmap(one))(values, index)

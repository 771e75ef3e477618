"""Attention of answers to a shared prefix and to themselves: one function.

The prefix is never copied for the G answers of a question: the G * R * T queries of
one key head (R = N / K query heads share it) are flattened into one matrix.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def attend(q, own, prefix, lengths, offset, *, backend):
  """Causal attention over a row's own keys, and over the prefix of its question.

  Args:
    q: [B, N, G, T, H], queries at places offset .. offset + T of their row.
    own: keys and values [B, K, G, M, H] of the row's places 0 .. M.
    prefix: keys and values [B, K, P, H] shared by the G rows, or None.
    lengths: int32[B], real tokens of the prefix; the rest is padding.
    offset: int, or a traced int32 while decoding.
    backend: "reference", "blockwise", or "auto" to pick by platform.

  Returns:
    [B, N, G, T, H].
  """
  batch, n, groups, length, width = q.shape
  heads = own.k.shape[1]
  q = q.reshape(batch, heads, n // heads, groups, length, width) * width**-0.5
  if backend == "auto":
    backend = "blockwise"
  y = BACKENDS[backend](q, own, prefix, lengths, offset)
  return y.reshape(batch, n, groups, length, width)


def _softmax_parts(q, own, prefix, lengths, first):
  """One softmax over two parts, without putting them side by side.

  q is [B, K, R, G, T, H] at places first .. first + T.
  """
  batch, heads, rep, groups, length, width = q.shape
  scores = jnp.einsum("bkrgth,bkgmh->bkrgtm", q, own.k, preferred_element_type=jnp.float32)
  places = first + jnp.arange(length)
  seen = jnp.arange(own.k.shape[3]) <= places[:, None]  # [T, M]
  scores = jnp.where(seen, scores, -jnp.inf)
  top = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
  if prefix is not None:
    flat = q.reshape(batch, heads, rep * groups * length, width)
    shared = jnp.einsum("bkqh,bkph->bkqp", flat, prefix.k, preferred_element_type=jnp.float32)
    real = jnp.arange(prefix.k.shape[2]) < lengths[:, None, None, None]  # [B, 1, 1, P]
    shared = jnp.where(real, shared, -jnp.inf).reshape(*scores.shape[:-1], -1)
    top = jnp.maximum(top, jax.lax.stop_gradient(shared.max(-1, keepdims=True)))
    shared = jnp.exp(shared - top)
  scores = jnp.exp(scores - top)
  total = scores.sum(-1, keepdims=True)
  y = jnp.einsum(
    "bkrgtm,bkgmh->bkrgth", scores.astype(q.dtype), own.v, preferred_element_type=jnp.float32
  )
  if prefix is not None:
    total = total + shared.sum(-1, keepdims=True)
    flat = shared.astype(q.dtype).reshape(batch, heads, rep * groups * length, -1)
    y = y + jnp.einsum(
      "bkqp,bkph->bkqh", flat, prefix.v, preferred_element_type=jnp.float32
    ).reshape(y.shape)
  return (y / total).astype(q.dtype)


def _reference(q, own, prefix, lengths, offset):
  return _softmax_parts(q, own, prefix, lengths, offset)


BACKENDS = {"reference": _reference, "blockwise": _reference}

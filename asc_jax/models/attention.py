"""Attention of answers to a shared prefix and to themselves: one function, `attend`.

The prefix is never copied for the G answers of a question. In the letters of types.py,
with R = N / K query heads a key head and M own places a row:

  q       [B, K, G, R, T, H]  queries at places offset .. offset + T of their row
  own     [B, K, G, M, H]     keys and values of the row itself
  prefix  [B, K, P, H]        keys and values that the G rows share, padded on the right

A prompt is the case G = 1 without a prefix. Masks come from lengths and places alone.

Backends: `reference` is one masked softmax; `blockwise` (CPUs) is the same over blocks
of queries that see only the keys below them, each recomputed by the backward pass;
`splash` (TPUs) is a Pallas kernel that skips blocks which a static mask empties;
`cudnn` (GPUs) is jax.nn.dot_product_attention. While decoding (a traced offset) there
are few queries and all backends are the plain softmax over two parts.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.sharding import PartitionSpec

from asc_jax import sharding
from asc_jax.types import UserError

BLOCK = 128  # queries a block on CPUs; sequences are padded to it on TPUs


def check_backend(name: str) -> None:
  """Raises UserError where the devices that are here have no such kernel."""
  needs = {"splash": "tpu", "cudnn": "gpu"}.get(name)
  if needs and jax.default_backend() != needs:
    raise UserError(
      f"config.model.attention={name} runs on a {needs.upper()}, and here is a "
      f"{jax.default_backend().upper()}; auto picks what does"
    )


def attend(
  q, own, prefix, lengths, offset, *, backend: str, scale: float | None = None, window=None
) -> jax.Array:
  """softmax(scale q k) v over the prefix and the row so far, [B, K, G, R, T, H].

  Args:
    q: queries, see the letters above.
    own: (k, v) of the rows. Place m is visible at offset + t where m <= offset + t.
    prefix: (k, v), or None.
    lengths: int32[B], real tokens of the prefix.
    offset: 0, or a traced int32 while decoding.
    backend: one of the four above, or "auto" to pick by platform.
    scale: None: H ** -0.5.
    window: places that a query sees, its own included; None: all.
  """
  if backend == "auto":
    backend = {"tpu": "splash", "gpu": "cudnn"}.get(sharding.platform(), "blockwise")
  if backend == "cudnn" and q.dtype == jnp.float32:
    backend = "blockwise"  # cuDNN's kernels take 16-bit types only
  q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
  if not isinstance(offset, int) or backend == "reference":
    return _two_parts(q, own, prefix, lengths, offset, window)
  # How far a window reaches into the prefix depends on its length, which the kernels'
  # static masks cannot hold.
  if backend == "blockwise" or window is not None:
    return _blockwise(q, own, prefix, lengths, window)
  return (_splash if backend == "splash" else _cudnn)(q, own, prefix, lengths)


def _two_parts(q, own, prefix, lengths, offset, window=None) -> jax.Array:
  """One softmax over prefix and own keys without putting them side by side."""
  batch, heads, groups, rep, length, _ = q.shape
  dots = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)

  def flat(x):  # [B, K, G, R, T, ...] -> [B, K, G * R * T, ...]: one matrix a key head
    return x.reshape(batch, heads, groups * rep * length, -1)

  scores = dots("bkgrth,bkgmh->bkgrtm", q, own.k)
  places = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 5)
  here = offset + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 4)
  seen = places <= here
  if window is not None:
    seen &= places > here - window
  scores = jnp.where(seen, scores, -jnp.inf)
  top = scores.max(axis=-1, keepdims=True)
  if prefix is not None:
    shared = dots("bkqh,bkph->bkqp", flat(q), prefix.k)
    places = jax.lax.broadcasted_iota(jnp.int32, shared.shape, 3)
    shared = jnp.where(places < lengths[:, None, None, None], shared, -jnp.inf)
    shared = shared.reshape(*scores.shape[:-1], -1)  # [B, K, G, R, T, P]
    if window is not None:
      places = jax.lax.broadcasted_iota(jnp.int32, shared.shape, 5)
      here = offset + jax.lax.broadcasted_iota(jnp.int32, shared.shape, 4)
      here += lengths.reshape(-1, 1, 1, 1, 1, 1)
      shared = jnp.where(places > here - window, shared, -jnp.inf)
    top = jnp.maximum(top, shared.max(axis=-1, keepdims=True))
  top = jax.lax.stop_gradient(top)
  scores = jnp.exp(scores - top)
  total = scores.sum(axis=-1, keepdims=True)
  y = dots("bkgrtm,bkgmh->bkgrth", scores.astype(q.dtype), own.v)
  if prefix is not None:
    shared = jnp.exp(shared - top)
    total = total + shared.sum(axis=-1, keepdims=True)
    y = y + dots("bkqp,bkph->bkqh", flat(shared.astype(q.dtype)), prefix.v).reshape(q.shape)
  return (y / total).astype(q.dtype)


def _blockwise(q, own, prefix, lengths, window=None) -> jax.Array:
  length = q.shape[4]
  blocks = []
  for start in range(0, length, BLOCK):
    end = min(start + BLOCK, length)
    part = functools.partial(_two_parts, offset=start, window=window)
    block = jax.checkpoint(part, prevent_cse=False)
    below = jax.tree.map(lambda x, end=end: x[:, :, :, :end], own)
    blocks.append(block(q[:, :, :, :, start:end], below, prefix, lengths))
  return jnp.concatenate(blocks, axis=4)


def _packed_mask(prompt: int, groups: int, length: int) -> np.ndarray:
  """bool[G * T, P + G * T]: all of the prefix, then each answer's own causal block."""
  causal = np.tril(np.ones((length, length), bool))
  own = np.kron(np.eye(groups, dtype=bool), causal)
  return np.concatenate([np.ones((groups * length, prompt), bool), own], axis=1)


def _pack(q, own, prefix, lengths):
  """The G rows of a question side by side, after their prefix.

  Returns:
    q [B, N, G * T, H], k and v [B, K, P + G * T, H], and bool[B, P + G * T], real keys.
  """
  batch, heads, groups, rep, length, width = q.shape
  q = jnp.moveaxis(q, 2, 3).reshape(batch, heads * rep, groups * length, width)
  own = jax.tree.map(lambda x: x.reshape(batch, heads, -1, width), own)
  if prefix is None:
    return q, own.k, own.v, jnp.ones((batch, groups * length), bool)
  kv = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=2), prefix, own)
  places = jax.lax.broadcasted_iota(jnp.int32, (batch, kv.k.shape[2]), 1)
  real = (places < lengths[:, None]) | (places >= prefix.k.shape[2])
  return q, kv.k, kv.v, real


def _unpack(y, shape) -> jax.Array:
  """[B, N, G * T, H] back to [B, K, G, R, T, H]."""
  batch, heads, groups, rep, length, width = shape
  return jnp.moveaxis(y.reshape(batch, heads, rep, groups, length, width), 3, 2)


def _splash(q, own, prefix, lengths, *, interpret: bool = False) -> jax.Array:
  shape = q.shape
  mask = _packed_mask(0 if prefix is None else prefix.k.shape[2], shape[2], shape[4])
  q, k, v, real = _pack(q, own, prefix, lengths)
  # Whole blocks: surplus queries see what the last one sees, surplus keys are masked.
  rows, columns = -q.shape[2] % BLOCK, -k.shape[2] % BLOCK
  mask = np.pad(np.pad(mask, ((0, rows), (0, 0)), mode="edge"), ((0, 0), (0, columns)))
  q = jnp.pad(q, ((0, 0), (0, 0), (0, rows), (0, 0)))
  k, v = (jnp.pad(x, ((0, 0), (0, 0), (0, columns), (0, 0))) for x in (k, v))
  real = jnp.pad(real, ((0, 0), (0, columns)))

  def local(q, k, v, real):
    heads = splash_attention.MultiHeadMask([splash_attention.NumpyMask(mask)] * q.shape[1])
    kernel = splash_attention.make_splash_mha(
      heads,
      block_sizes=_block_sizes(*mask.shape),
      head_shards=1,
      q_seq_shards=1,
      interpret=interpret,
    )
    segments = splash_attention.SegmentIds(
      jnp.ones(q.shape[:1] + q.shape[2:3], jnp.int32), real.astype(jnp.int32)
    )
    return jax.vmap(kernel)(q, k, v, segments)

  y = _per_device(local, q, k, v, real)
  return _unpack(y[:, :, : shape[2] * shape[4]], shape)


def _block_sizes(rows: int, columns: int) -> splash_attention.BlockSizes:
  """The largest tiles up to 512 that divide both sides."""
  q, kv = (max(b for b in (128, 256, 512) if n % b == 0) for n in (rows, columns))
  return splash_attention.BlockSizes(
    block_q=q,
    block_kv=kv,
    block_kv_compute=kv,
    block_q_dkv=q,
    block_kv_dkv=kv,
    block_kv_dkv_compute=kv,
    block_q_dq=q,
    block_kv_dq=kv,
  )


def _per_device(function, q, k, v, real) -> jax.Array:
  """Runs a kernel, which the compiler cannot split, on each device's questions and heads."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty:
    return function(q, k, v, real)
  rows = sharding.BATCH if k.shape[0] % sharding.batch_shards() == 0 else None
  heads = "tensor" if k.shape[1] % mesh.shape["tensor"] == 0 else None
  spec = PartitionSpec(rows, heads)
  return jax.shard_map(
    function,
    in_specs=(spec, spec, spec, PartitionSpec(rows)),
    out_specs=spec,
    check_vma=False,
  )(q, k, v, real)


def _cudnn(q, own, prefix, lengths, *, implementation: str = "cudnn") -> jax.Array:
  shape = q.shape
  mask = _packed_mask(0 if prefix is None else prefix.k.shape[2], shape[2], shape[4])
  q, k, v, real = _pack(q, own, prefix, lengths)

  def local(q, k, v, real):
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))  # [B, places, heads, H]
    options: dict = {"is_causal": True}
    if prefix is not None:
      options = {"mask": jnp.asarray(mask)[None, None] & real[:, None, None]}
    y = jax.nn.dot_product_attention(q, k, v, scale=1.0, implementation=implementation, **options)
    return jnp.swapaxes(y, 1, 2)

  return _unpack(_per_device(local, q, k, v, real), shape)

r"""Gated DeltaNet (Yang et al., 2024): linear attention with a fading, corrected memory.

Each value head keeps a matrix S [dk, dv]. A token with key k, value v, decay e^g and
learning rate beta reads what S holds for k and writes the correction:

  S <- e^g S;   S <- S + k (beta (v - S^T k))^T;   o = S^T q

`recurrent` is that, for decoding. `chunked` gives the same for many tokens with matrix
products. With c the running sum of g within a chunk, the corrections U of its tokens
satisfy a unit lower triangular system

  (I + A) U = beta V - (beta e^c K) S,   A_ij = beta_i e^(c_i - c_j) k_i . k_j  (j < i)

so that o_i = e^(c_i) S^T q_i + sum_(j <= i) e^(c_i - c_j) (q_i . k_j) u_j and
S' = e^c_end S + sum_j e^(c_end - c_j) k_j u_j^T. A token with g = 0 and beta = 0 leaves
S as it is: that is how padding is masked.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from asc_jax.models.layers import Linear, RMSNorm, along_last
from asc_jax.models.lora import LoraConfig

CHUNK = 64
# The state is corrected by small differences: TPUs' default of bfloat16 passes is too coarse.
_dot = functools.partial(
  jnp.einsum, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32
)


@dataclasses.dataclass(frozen=True)
class DeltaConfig:
  """One Gated DeltaNet layer.

  Attributes:
    key_heads: heads of queries and keys; divides value_heads.
    value_heads: heads of values, each with a state.
    key_dim: dk.
    value_dim: dv.
    conv_width: tokens that the causal convolution sees.
  """

  key_heads: int
  value_heads: int
  key_dim: int
  value_dim: int
  conv_width: int = 4


class DeltaState(NamedTuple):
  """What a layer remembers, [B, ...] of prompts or [B, G, ...] of answers."""

  conv: jax.Array  # [..., conv_width - 1, C], the convolution's last inputs
  memory: jax.Array  # float32[..., value_heads, dk, dv]


def recurrent(q, k, v, g, beta, state):
  """One token: q, k [..., h, dk], v [..., h, dv], g and beta [..., h], state S.

  Returns:
    (o [..., h, dv], S).
  """
  state = state * jnp.exp(g)[..., None, None]
  write = beta[..., None] * (v - _dot("...kv,...k->...v", state, k))
  state = state + k[..., :, None] * write[..., None, :]
  return _dot("...kv,...k->...v", state, q), state


def chunked(q, k, v, g, beta, state, chunk: int = CHUNK):
  """T tokens: q, k [..., h, T, dk], v [..., h, T, dv], g and beta [..., h, T].

  Returns:
    (o [..., h, T, dv], S after the last token).
  """
  length = q.shape[-2]
  chunk = min(chunk, length)
  rest = -length % chunk

  def pieces(x, axis):  # chunks in front, the last one filled with zeros: masked tokens
    x = jnp.pad(x, [(0, rest if i == x.ndim + axis else 0) for i in range(x.ndim)])
    shape = (*x.shape[: x.ndim + axis], -1, chunk, *x.shape[x.ndim + axis + 1 :])
    return jnp.moveaxis(x.reshape(shape), x.ndim + axis, 0)

  lower = jnp.tril(jnp.ones((chunk, chunk), bool))

  def step(state, piece):
    q, k, v, g, beta = piece
    c = jnp.cumsum(g, axis=-1)
    gap = c[..., :, None] - c[..., None, :]
    # Masked before exp: above the diagonal the gap is positive and may overflow.
    fade = jnp.exp(jnp.where(_like(lower, gap), gap, -jnp.inf))
    kb = k * beta[..., None]
    system = _dot("...ik,...jk->...ij", kb, k) * fade  # its diagonal is taken as 1
    known = v * beta[..., None] - _dot("...ik,...kv->...iv", kb * jnp.exp(c)[..., None], state)
    u = jax.lax.linalg.triangular_solve(
      system, known, left_side=True, lower=True, unit_diagonal=True
    )
    o = _dot("...ik,...kv->...iv", q * jnp.exp(c)[..., None], state)
    o = o + _dot("...ij,...jv->...iv", _dot("...ik,...jk->...ij", q, k) * fade, u)
    left = jnp.exp(c[..., -1:] - c)[..., None]
    state = state * jnp.exp(c[..., -1])[..., None, None]
    return state + _dot("...jk,...jv->...kv", k * left, u), o

  inputs = (*(pieces(x, -2) for x in (q, k, v)), *(pieces(x, -1) for x in (g, beta)))
  state, o = jax.lax.scan(step, state, inputs)
  o = jnp.moveaxis(o, 0, -3)  # [..., h, chunks, chunk, dv]
  o = o.reshape(*o.shape[:-3], -1, o.shape[-1])
  return o[..., :length, :], state


def _like(mask: jax.Array, x: jax.Array) -> jax.Array:
  return jnp.broadcast_to(mask.reshape((1,) * (x.ndim - mask.ndim) + mask.shape), x.shape)


def _unit(x: jax.Array) -> jax.Array:
  return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)


class Conv(nnx.Module):
  """A causal convolution of each channel alone, without bias."""

  def __init__(self, channels: int, width: int, rngs: nnx.Rngs):
    self.weight = nnx.Param(jax.random.normal(rngs.params(), (channels, 1, width)) * width**-0.5)

  def __call__(self, window: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x [..., T, C] after `window` [..., W - 1, C] -> (y [..., T, C], all W - 1 + T inputs)."""
    weight = self.weight[...].astype(x.dtype)
    full = jnp.concatenate([window.astype(x.dtype), x], axis=-2)
    y = jnp.zeros_like(x)
    for i in range(weight.shape[-1]):
      y = y + full[..., i : i + x.shape[-2], :] * along_last(weight[:, 0, i], x)
    return y, full


class DeltaNet(nnx.Module):
  """The layer around the rule: projections, convolution, gates and output norm."""

  def __init__(self, width: int, config: DeltaConfig, *, eps, lora: LoraConfig | None, rngs):
    self.config = config
    keys, values = config.key_heads * config.key_dim, config.value_heads * config.value_dim
    linear = functools.partial(Linear, lora=lora, rngs=rngs)
    self.in_proj_qkv = linear("in_proj_qkv", width, 2 * keys + values)
    self.in_proj_z = linear("in_proj_z", width, values)
    self.in_proj_b = linear("in_proj_b", width, config.value_heads)
    self.in_proj_a = linear("in_proj_a", width, config.value_heads)
    self.out_proj = linear("out_proj", values, width)
    self.conv = Conv(2 * keys + values, config.conv_width, rngs)
    self.dt_bias = nnx.Param(jnp.ones((config.value_heads,)))
    self.a_log = nnx.Param(jnp.zeros((config.value_heads,)))
    self.norm = RMSNorm(config.value_dim, eps)

  def prefill(self, x: jax.Array, lengths: jax.Array) -> tuple[jax.Array, DeltaState]:
    """x [B, 1, P, D]; only the first `lengths` tokens of a prompt are remembered."""
    config = self.config
    batch, _, places, _ = x.shape
    real = jax.lax.broadcasted_iota(jnp.int32, (batch, 1, places), 2) < lengths[:, None, None]
    channels = self.conv.weight.shape[0]
    window = jnp.zeros((batch, 1, config.conv_width - 1, channels), x.dtype)
    memory = jnp.zeros((batch, 1, config.value_heads, config.key_dim, config.value_dim))
    y, full, memory = self._run(x, DeltaState(window, memory), real)
    # Input t lies at t + W - 1 of `full`; those of the last W - 1 tokens are kept.
    at = lengths[:, None] + jax.lax.broadcasted_iota(jnp.int32, (batch, config.conv_width - 1), 1)
    window = jnp.take_along_axis(full[:, 0], at[..., None], axis=1)
    return y, DeltaState(window, memory[:, 0])

  def __call__(self, x: jax.Array, state: DeltaState) -> tuple[jax.Array, DeltaState]:
    """x [B, G, T, D] after `state` [B, G, ...]."""
    y, full, memory = self._run(x, state, None)
    return y, DeltaState(full[:, :, -(self.config.conv_width - 1) :], memory)

  def _run(self, x, state: DeltaState, real):
    """(y [B, G, T, D], inputs of the convolution, S); `real` bool[B, G, T] or None."""
    config = self.config
    rows = x.shape[:3]
    mixed, full = self.conv(state.conv, self.in_proj_qkv(x))
    mixed = jax.nn.silu(mixed).astype(jnp.float32)
    keys = config.key_heads * config.key_dim
    q, k, v = jnp.split(mixed, [keys, 2 * keys], axis=-1)
    repeat = config.value_heads // config.key_heads

    def heads(y, size):  # [B, G, h, T, size]
      return jnp.swapaxes(y.reshape(*rows, -1, size), 2, 3)

    q = jnp.repeat(_unit(heads(q, config.key_dim)), repeat, axis=2) * config.key_dim**-0.5
    k = jnp.repeat(_unit(heads(k, config.key_dim)), repeat, axis=2)
    v = heads(v, config.value_dim)
    beta = jax.nn.sigmoid(self.in_proj_b(x).astype(jnp.float32))
    a = self.in_proj_a(x).astype(jnp.float32)
    a = jax.nn.softplus(a + along_last(self.dt_bias[...].astype(jnp.float32), a))
    g = -a * along_last(jnp.exp(self.a_log[...].astype(jnp.float32)), a)
    if real is not None:
      beta, g = (jnp.where(real[..., None], y, 0.0) for y in (beta, g))
    beta, g = (jnp.swapaxes(y, 2, 3) for y in (beta, g))  # [B, G, h, T]
    if rows[2] == 1:
      q, k, v = (y[..., 0, :] for y in (q, k, v))
      o, memory = recurrent(q, k, v, g[..., 0], beta[..., 0], state.memory)
      o = o[..., None, :]
    else:
      o, memory = chunked(q, k, v, g, beta, state.memory)
    o = jnp.swapaxes(o, 2, 3)  # [B, G, T, h, dv]
    z = self.in_proj_z(x).reshape(o.shape).astype(jnp.float32)
    y = self.norm(o) * jax.nn.silu(z)
    return self.out_proj(y.reshape(*rows, -1).astype(x.dtype)), full, memory

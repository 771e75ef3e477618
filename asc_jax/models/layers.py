"""The small parts a decoder layer is composed of.

Every activation is [B, G, T, ...]: B questions, G rows of each, T positions. The
prompt is the case G = 1. Keys and values have their heads in front,
[B, K, G, T, H], so that every product of attention is a plain batched one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.models import attention
from asc_jax.models.lora import LoraConfig


@dataclasses.dataclass(frozen=True)
class Rope:
  """Rotary position embedding.

  Attributes:
    theta: base of the frequencies.
    llama3: (factor, low_freq_factor, high_freq_factor, original_max_positions)
      of Llama 3.1's frequency scaling, or None.
    divisors: what the frequencies are divided by, one number or H / 2, or None.
    rotary: features of a head that rotate, the first ones; None: all.
    nonzero: frequencies that are kept, the fast ones; the others are 0. None: all.
  """

  theta: float = 10_000.0
  llama3: tuple[float, float, float, int] | None = None
  divisors: tuple[float, ...] | None = None
  rotary: int | None = None
  nonzero: int | None = None


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
  """One attention layer.

  Attributes:
    heads: N, query heads.
    kv_heads: K, key and value heads; divides N.
    head_dim: H.
    rope: position embedding.
    qkv_bias: biases on q_proj, k_proj and v_proj (Qwen2).
    qk_norm: RMS norm of queries and keys: "none", "head" for each head (Qwen3), or
      "all" for all heads together (OLMo 2).
    gated: q_proj gives a gate beside each query; the output is times its sigmoid
      (Qwen3.5).
    shared_values: values are the keys before norm and rotation; no v_proj (Gemma 4).
    value_norm: RMS norm of each head's values, without a scale (Gemma 4).
    scale: of the logits; None: H ** -0.5.
    window: places that are visible, the query's own included; None: all.
  """

  heads: int
  kv_heads: int
  head_dim: int
  rope: Rope = Rope()
  qkv_bias: bool = False
  qk_norm: str = "none"
  gated: bool = False
  shared_values: bool = False
  value_norm: bool = False
  scale: float | None = None
  window: int | None = None


class KV(NamedTuple):
  """Keys and values of one layer, or stacked over repeats in front."""

  k: jax.Array  # [B, K, G, T, H]; of a prefix [B, K, P, H]
  v: jax.Array


class Linear(nnx.Module):
  """x W (+ b), with W [in, out], and a low-rank adapter where one is wanted."""

  def __init__(
    self, name, din, dout, *, bias=False, lora: LoraConfig | None = None, rngs: nnx.Rngs
  ):
    self.kernel = nnx.Param(jax.random.normal(rngs.params(), (din, dout)) * din**-0.5)
    if bias:
      self.bias = nnx.Param(jnp.zeros((dout,)))
    self.scale = 0.0
    if lora is not None and name in lora.targets:
      self.scale = lora.scale
      self.lora_a = nnx.LoRAParam(jax.random.normal(rngs.lora(), (din, lora.rank)) * din**-0.5)
      self.lora_b = nnx.LoRAParam(jnp.zeros((lora.rank, dout)))

  def __call__(self, x: jax.Array) -> jax.Array:
    # With its tokens on one axis the weight's gradient is a plain product; with several, XLA
    # transposes copies for it on CPUs.
    shape, x = x.shape, x.reshape(-1, x.shape[-1])
    y = x @ self.kernel[...].astype(x.dtype)
    if hasattr(self, "bias"):
      y = y + along_last(self.bias[...].astype(x.dtype), y)
    if hasattr(self, "lora_a"):
      low = x @ self.lora_a[...].astype(x.dtype)
      y = y + self.scale * (low @ self.lora_b[...].astype(x.dtype))
    return y.reshape(*shape[:-1], y.shape[-1])


class RMSNorm(nnx.Module):
  """x / rms(x) * (offset + scale), in float32."""

  def __init__(self, width: int, eps: float, offset: float = 0.0):
    self.scale = nnx.Param(jnp.full((width,), 1.0 - offset))
    self.eps = eps
    self.offset = offset

  def __call__(self, x: jax.Array) -> jax.Array:
    return rms_norm(x, self.scale[...], self.eps, self.offset)


def rms_norm(x: jax.Array, scale: jax.Array | None, eps: float, offset: float = 0.0) -> jax.Array:
  y = x.astype(jnp.float32)
  y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
  if scale is not None:
    y = y * along_last(offset + scale.astype(jnp.float32), y)
  return y.astype(x.dtype)


def along_last(vector: jax.Array, x: jax.Array) -> jax.Array:
  """`vector` [N] with x's number of axes, for products with x [..., N]."""
  return vector.reshape((1,) * (x.ndim - 1) + vector.shape)


def inverse_frequencies(rope: Rope, head_dim: int) -> np.ndarray:
  """float64[H / 2], or half of `rotary`, from fast to slow."""
  width = rope.rotary or head_dim
  freqs = rope.theta ** (-np.arange(0, width, 2) / width)
  if rope.nonzero is not None:
    freqs[rope.nonzero :] = 0.0
  if rope.divisors is not None:
    freqs = freqs / np.asarray(rope.divisors)
  if rope.llama3 is None:
    return freqs
  factor, low, high, original = rope.llama3
  # Wavelengths longer than original / low are stretched by `factor`, those shorter
  # than original / high are kept, and those between are blended.
  turns = original * freqs / (2 * math.pi)
  keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
  return freqs * (keep + (1 - keep) / factor)


def rotate(x: jax.Array, positions: jax.Array, rope: Rope) -> jax.Array:
  """Rotates x [B, ..., T, H] by the positions [B, T] of its last axis but one."""
  freqs = jnp.asarray(inverse_frequencies(rope, x.shape[-1]), jnp.float32)
  angles = positions[..., None].astype(jnp.float32) * freqs[None, None, :]
  batch, length, half = angles.shape
  angles = angles.reshape(batch, *(1,) * (x.ndim - 3), length, half)
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  a, b, still = jnp.split(x.astype(jnp.float32), [half, 2 * half], axis=-1)
  return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, still], axis=-1).astype(x.dtype)


class Attention(nnx.Module):
  """Grouped-query attention with rotary positions."""

  def __init__(self, width, config: AttentionConfig, *, eps, offset, lora, rngs):
    self.config = config
    self.eps = eps
    n, k, h = config.heads, config.kv_heads, config.head_dim
    bias, rows = config.qkv_bias, 2 * n * h if config.gated else n * h
    self.q_proj = Linear("q_proj", width, rows, bias=bias, lora=lora, rngs=rngs)
    self.k_proj = Linear("k_proj", width, k * h, bias=bias, lora=lora, rngs=rngs)
    if not config.shared_values:
      self.v_proj = Linear("v_proj", width, k * h, bias=bias, lora=lora, rngs=rngs)
    self.o_proj = Linear("o_proj", n * h, width, lora=lora, rngs=rngs)
    if config.qk_norm != "none":
      every = config.qk_norm == "all"
      self.q_norm = RMSNorm(n * h if every else h, eps, offset)
      self.k_norm = RMSNorm(k * h if every else h, eps, offset)

  def keys_values(self, x: jax.Array, positions: jax.Array) -> KV:
    """Keys and values [B, K, G, T, H] of x [B, G, T, D] at positions [B, T]."""

    def heads(y):
      y = y.reshape(*y.shape[:-1], self.config.kv_heads, self.config.head_dim)
      return jnp.moveaxis(y, 3, 1)

    k = self.k_proj(x)
    v = heads(k if self.config.shared_values else self.v_proj(x))
    k = heads(self.k_norm(k) if self.config.qk_norm == "all" else k)
    if self.config.qk_norm == "head":
      k = self.k_norm(k)
    if self.config.value_norm:
      v = rms_norm(v, None, self.eps)
    return KV(rotate(k, positions, self.config.rope), v)

  def queries(self, q: jax.Array, positions: jax.Array) -> jax.Array:
    """[B, K, G, R, T, H] of projections [B, G, T, N * H]."""
    if self.config.qk_norm == "all":
      q = self.q_norm(q)
    q = q.reshape(*q.shape[:-1], self.config.kv_heads, -1, self.config.head_dim)
    q = jnp.transpose(q, (0, 3, 1, 4, 2, 5))
    if self.config.qk_norm == "head":
      q = self.q_norm(q)
    return rotate(q, positions, self.config.rope)

  def __call__(self, x, positions, own: KV, prefix: KV | None, lengths, offset, backend):
    """What x [B, G, T, D] reads from the prefix and from its own row so far."""
    config = self.config
    q, gate = self.q_proj(x), None
    if config.gated:  # [B, G, T, N, 2 H]: each head's query, then its gate
      both = q.reshape(*x.shape[:-1], config.heads, 2, config.head_dim)
      q, gate = (both[..., i, :].reshape(*x.shape[:-1], -1) for i in range(2))
    y = attention.attend(
      self.queries(q, positions),
      own,
      prefix,
      lengths,
      offset,
      backend=backend,
      scale=config.scale,
      window=config.window,
    )
    y = jnp.transpose(y, (0, 2, 4, 1, 3, 5))  # [B, G, T, K, R, H]
    y = y.reshape(*x.shape[:-1], -1)
    return self.o_proj(y if gate is None else y * jax.nn.sigmoid(gate))


ACTIVATIONS = {"silu": jax.nn.silu, "gelu_tanh": jax.nn.gelu}


class MLP(nnx.Module):
  """down(act(gate(x)) * up(x))."""

  def __init__(self, width: int, hidden: int, activation: str = "silu", *, lora, rngs):
    self.activation = activation
    self.gate_proj = Linear("gate_proj", width, hidden, lora=lora, rngs=rngs)
    self.up_proj = Linear("up_proj", width, hidden, lora=lora, rngs=rngs)
    self.down_proj = Linear("down_proj", hidden, width, lora=lora, rngs=rngs)

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.down_proj(ACTIVATIONS[self.activation](self.gate_proj(x)) * self.up_proj(x))

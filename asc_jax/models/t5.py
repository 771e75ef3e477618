"""T5's encoder and decoder (v1.1 and Flan): relative positions, no biases, gated GELU.

Attention is not scaled by the head width; how far apart two tokens are adds a
learned number per head, shared by all layers of a side.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.models import loading
from asc_jax.models.layers import RMSNorm
from asc_jax.types import UserError


@dataclasses.dataclass(frozen=True)
class T5Config:
  """Sizes, named as in a checkpoint's config.json.

  Attributes:
    scale_decoder_outputs: divide by sqrt(d_model) before the output layer: the first
      T5, not 1.1 and Flan, whose configs say so by `tie_word_embeddings: false`.
  """

  vocab_size: int
  d_model: int
  d_kv: int
  d_ff: int
  num_layers: int
  num_decoder_layers: int
  num_heads: int
  relative_attention_num_buckets: int = 32
  relative_attention_max_distance: int = 128
  layer_norm_epsilon: float = 1e-6
  scale_decoder_outputs: bool = True

  @classmethod
  def from_dict(cls, raw: Mapping[str, Any]) -> T5Config:
    """Reads a checkpoint's config.json, already parsed."""
    kind = raw.get("feed_forward_proj", "relu")
    if kind != "gated-gelu":
      raise UserError(
        f"feed_forward_proj {kind!r} of a T5 checkpoint; only gated-gelu is implemented"
      )
    known = {k: v for k, v in raw.items() if v is not None}
    scale = known.get("tie_word_embeddings", True)
    defaults = {"num_decoder_layers": known.get("num_layers"), "scale_decoder_outputs": scale}
    return loading.sizes(cls, {**defaults, **known}, "T5")


def relative_bucket(distance: jax.Array, buckets: int, longest: int, both_ways: bool) -> jax.Array:
  """The bucket of (key position - query position): exact when near, then logarithmic.

  Args:
    distance: int32 of any shape.
    buckets: their number; half of it for keys to the right if `both_ways`.
    longest: distances from here on share the last bucket.
    both_ways: False in the decoder, where no key lies to the right.
  """
  base = jnp.zeros_like(distance)
  if both_ways:
    buckets //= 2
    base = jnp.where(distance > 0, buckets, 0)
    distance = jnp.abs(distance)
  else:
    distance = jnp.maximum(-distance, 0)
  exact = buckets // 2
  ratio = jnp.log(jnp.maximum(distance, 1) / exact) / math.log(longest / exact)
  far = jnp.minimum(exact + (ratio * (buckets - exact)).astype(jnp.int32), buckets - 1)
  return base + jnp.where(distance < exact, distance, far)


class Attention(nnx.Module):
  """Queries from one sequence, keys and values from the same or another."""

  def __init__(self, config: T5Config, rngs: nnx.Rngs):
    inner = config.num_heads * config.d_kv
    self.heads = config.num_heads
    self.q, self.k, self.v = (
      nnx.Linear(config.d_model, inner, use_bias=False, rngs=rngs) for _ in range(3)
    )
    self.o = nnx.Linear(inner, config.d_model, use_bias=False, rngs=rngs)

  def __call__(self, x, memory, bias, mask):
    """x: [B, T, D]; memory: [B, L, D]; bias: [1, N, T, L] or None; mask: bool[B, 1, T or 1, L]."""

    def split(y):
      return y.reshape(*y.shape[:2], self.heads, -1)

    y = jax.nn.dot_product_attention(
      split(self.q(x)), split(self.k(memory)), split(self.v(memory)), bias, mask, scale=1.0
    )  # [B, T, N, H]
    return self.o(y.reshape(*y.shape[:2], -1))


class Block(nnx.Module):
  """Pre-norm self-attention, cross-attention in the decoder, gated MLP."""

  def __init__(self, config: T5Config, cross: bool, rngs: nnx.Rngs):
    d, eps = config.d_model, config.layer_norm_epsilon
    self.self_norm, self.self_attention = RMSNorm(d, eps), Attention(config, rngs)
    self.cross_norm = RMSNorm(d, eps) if cross else None
    self.cross_attention = Attention(config, rngs) if cross else None
    self.mlp_norm = RMSNorm(d, eps)
    self.gate, self.up = (nnx.Linear(d, config.d_ff, use_bias=False, rngs=rngs) for _ in range(2))
    self.down = nnx.Linear(config.d_ff, d, use_bias=False, rngs=rngs)

  def __call__(self, x, bias, mask, memory=None, memory_mask=None):
    y = self.self_norm(x)
    x = x + self.self_attention(y, y, bias, mask)
    if self.cross_attention is not None:
      x = x + self.cross_attention(self.cross_norm(x), memory, None, memory_mask)
    y = self.mlp_norm(x)
    return x + self.down(jax.nn.gelu(self.gate(y), approximate=True) * self.up(y))


class Stack(nnx.Module):
  """The blocks of one side, stacked and scanned, and its last norm."""

  def __init__(self, config: T5Config, decoder: bool, rngs: nnx.Rngs):
    self.config = config
    self.decoder = decoder
    self.positions = nnx.Embed(config.relative_attention_num_buckets, config.num_heads, rngs=rngs)
    layers = config.num_decoder_layers if decoder else config.num_layers
    self.blocks = nnx.vmap(lambda r: Block(config, decoder, r))(rngs.split(layers))
    self.norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

  def __call__(self, x, mask, memory=None, memory_mask=None):
    """x: [B, T, D]; mask: bool[B, 1, T or 1, T]."""
    where = jnp.arange(x.shape[1])
    bucket = relative_bucket(
      where[None, :] - where[:, None],
      self.config.relative_attention_num_buckets,
      self.config.relative_attention_max_distance,
      both_ways=not self.decoder,
    )  # [T, T]
    bias = self.positions(bucket).transpose(2, 0, 1)[None]  # [1, N, T, T]
    graph, stacked = nnx.split(self.blocks)

    def body(x, one):
      return nnx.merge(graph, one)(x, bias, mask, memory, memory_mask), None

    x, _ = jax.lax.scan(body, x, stacked)
    return self.norm(x)


class T5(nnx.Module):
  """Encoder, decoder and the output layer."""

  def __init__(self, config: T5Config, rngs: nnx.Rngs):
    self.config = config
    self.words = nnx.Embed(config.vocab_size, config.d_model, rngs=rngs)
    self.encoder = Stack(config, False, rngs)
    self.decoder = Stack(config, True, rngs)
    self.head = nnx.Linear(config.d_model, config.vocab_size, use_bias=False, rngs=rngs)

  def __call__(self, tokens: jax.Array, lengths: jax.Array, targets: jax.Array) -> jax.Array:
    """Teacher-forced logits.

    Args:
      tokens: int32[B, L] of the encoder, right-padded; what is padded is not read.
      lengths: int32[B].
      targets: int32[B, T] of the decoder, the start id included.

    Returns:
      float32[B, T, V]; position t predicts the token after targets[:, t].
    """
    real = jnp.arange(tokens.shape[1])[None, None, None, :]
    mask = real < jnp.maximum(lengths, 1)[:, None, None, None]  # [B, 1, 1, L]
    memory = self.encoder(self.words(tokens), mask)  # [B, L, D]
    steps = targets.shape[1]
    causal = jnp.tril(jnp.ones((1, 1, steps, steps), bool))
    x = self.decoder(self.words(targets), causal, memory, mask)  # [B, T, D]
    return self.head(x * self.config.d_model**-0.5 if self.config.scale_decoder_outputs else x)


_ATTENTION = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"}
_NORM = {"self_norm": 0, "cross_norm": 1}
_MLP = {"gate": "wi_0", "up": "wi_1", "down": "wo"}


def _block_name(path: list[str], decoder: bool) -> str:
  """["self_attention", "q", "kernel"] -> "layer.0.SelfAttention.q.weight"."""
  mlp = 2 if decoder else 1
  if path[0] in _ATTENTION:
    return f"layer.{int(path[0] == 'cross_attention')}.{_ATTENTION[path[0]]}.{path[1]}.weight"
  if path[0] in _MLP:
    return f"layer.{mlp}.DenseReluDense.{_MLP[path[0]]}.weight"
  return f"layer.{_NORM.get(path[0], mlp)}.layer_norm.weight"


def from_weights(config: T5Config, weights: Mapping[str, np.ndarray]) -> T5:
  """Builds the model from a checkpoint's tensors, named as transformers does.

  Raises:
    UserError: naming a tensor that is missing or has another shape.
  """
  tensors = loading.Tensors(weights, "T5 model")

  def read(path: str) -> np.ndarray:
    side, *rest = path.split(".")
    if side == "words":
      return tensors("shared.weight")
    if side == "head":
      # A config that unties them promises a head; else a file may have one or not.
      tied = config.scale_decoder_outputs and "lm_head.weight" not in weights
      return tensors("shared.weight" if tied else "lm_head.weight", transpose=True)
    if rest[0] == "norm":
      return tensors(f"{side}.final_layer_norm.weight")
    if rest[0] == "positions":
      return tensors(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    name = _block_name(rest[1:], side == "decoder")
    layers = config.num_decoder_layers if side == "decoder" else config.num_layers
    transpose = rest[-1] == "kernel"
    return np.stack(
      [tensors(f"{side}.block.{i}.{name}", transpose=transpose) for i in range(layers)]
    )

  return loading.build(lambda: T5(config, nnx.Rngs(0)), read)

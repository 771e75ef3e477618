"""The repeating group of layers, and what a layer remembers between tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx

from asc_jax.models.delta_net import DeltaConfig, DeltaNet, DeltaState
from asc_jax.models.layers import KV, MLP, Attention, AttentionConfig, RMSNorm
from asc_jax.models.lora import LoraConfig

if TYPE_CHECKING:
  from asc_jax.models.decoder import DecoderConfig

Memory = KV | DeltaState


def room(memory: Memory, groups: int, max_tokens: int) -> Memory:
  """A layer's part of a cache for G answers, stacked over repeats as `memory` is.

  Keys and values get room for `max_tokens`; a DeltaNet state starts as the prompt's,
  the one thing that is copied for every answer.
  """
  if isinstance(memory, DeltaState):
    return jax.tree.map(lambda x: _spread(x, groups, axis=2), memory)

  def empty(x):
    repeats, batch, heads, _, width = x.shape
    return jnp.zeros((repeats, batch, heads, groups, max_tokens, width), x.dtype)

  return jax.tree.map(empty, memory)


def _spread(x: jax.Array, groups: int, axis: int) -> jax.Array:
  shape = (*x.shape[:axis], groups, *x.shape[axis:])
  return jnp.broadcast_to(jnp.expand_dims(x, axis), shape)


class Cell:
  """One layer's place in the cache while a scan is at repeat `index`.

  Without a cache there are only the tokens at hand.
  """

  def __init__(self, cache: Memory | None, index, offset):
    self.cache = cache
    self._index = index
    self._offset = offset

  def append(self, new: KV) -> KV:
    """Keeps new keys and values, and returns all of the answers' so far."""
    if self.cache is None:
      return new
    at = (self._index, 0, 0, 0, self._offset, 0)
    self.cache = jax.tree.map(
      lambda c, n: jax.lax.dynamic_update_slice(c, n[None], at), self.cache, new
    )
    return jax.tree.map(lambda c: c[self._index], self.cache)

  def state(self, prefix: DeltaState, groups: int) -> DeltaState:
    """The answers' states [B, G, ...] so far."""
    if self.cache is None:
      return jax.tree.map(lambda x: _spread(x, groups, axis=1), prefix)
    return jax.tree.map(lambda c: c[self._index], self.cache)

  def replace(self, new: DeltaState) -> None:
    if self.cache is not None:
      self.cache = jax.tree.map(lambda c, n: c.at[self._index].set(n), self.cache, new)


class Layer(nnx.Module):
  """x + mix(norm(x)), then x + mlp(norm(x)), with norms where the config wants them."""

  def __init__(
    self, config: DecoderConfig, kind: AttentionConfig | DeltaConfig, *, lora, rngs: nnx.Rngs
  ):
    self.backend = config.attention
    for name in config.norms:
      setattr(self, name, RMSNorm(config.width, config.norm_eps, config.norm_offset))
    if isinstance(kind, DeltaConfig):
      self.delta = DeltaNet(config.width, kind, eps=config.norm_eps, lora=lora, rngs=rngs)
    else:
      self.attn = Attention(
        config.width, kind, eps=config.norm_eps, offset=config.norm_offset, lora=lora, rngs=rngs
      )
    self.mlp = MLP(config.width, config.mlp_width, config.activation, lora=lora, rngs=rngs)
    if config.layer_scale:
      self.layer_scale = nnx.Param(jnp.ones((1,)))

  def _norm(self, name: str, x: jax.Array) -> jax.Array:
    return getattr(self, name)(x) if hasattr(self, name) else x

  def _finish(self, x: jax.Array, mixed: jax.Array) -> jax.Array:
    x = x + self._norm("attn_post_norm", mixed)
    x = x + self._norm("mlp_post_norm", self.mlp(self._norm("mlp_norm", x)))
    if hasattr(self, "layer_scale"):  # a constant of the checkpoint, never trained
      x = x * jax.lax.stop_gradient(self.layer_scale[0]).astype(x.dtype)
    return x

  def prefill(self, x, lengths, skip) -> tuple[jax.Array, Memory]:
    """x [B, 1, P, D] -> (x, memory of all but each prompt's last token).

    `skip`: nothing reads the layer's output, only its memory.
    """
    h = self._norm("attn_norm", x)
    if hasattr(self, "delta"):
      mixed, memory = self.delta.prefill(h, lengths - 1)
      return self._finish(x, mixed), memory
    positions = jax.lax.broadcasted_iota(jnp.int32, (x.shape[0], x.shape[2]), 1)
    own = self.attn.keys_values(h, positions)

    def rest():
      return self._finish(x, self.attn(h, positions, own, None, lengths, 0, self.backend))

    x = jax.lax.cond(skip, lambda: x, rest)
    return x, KV(own.k[:, :, 0], own.v[:, :, 0])

  def extend(self, x, prefix: Memory, lengths, offset, cell: Cell) -> jax.Array:
    """x [B, G, T, D] -> x, after a prefix of `lengths` and `offset` places of the rows."""
    h = self._norm("attn_norm", x)
    if hasattr(self, "delta"):
      assert isinstance(prefix, DeltaState)
      mixed, state = self.delta(h, cell.state(prefix, x.shape[1]))
      cell.replace(state)
    else:
      assert isinstance(prefix, KV)
      positions = lengths[:, None] + (offset + jnp.arange(x.shape[2]))[None]  # [B, T]
      own = cell.append(self.attn.keys_values(h, positions))
      mixed = self.attn(h, positions, own, prefix, lengths, offset, self.backend)
    return self._finish(x, mixed)


class Block(nnx.Module):
  """One repeating group of layers, as attributes layer_0, layer_1, ..."""

  def __init__(self, config: DecoderConfig, lora: LoraConfig | None, *, rngs: nnx.Rngs):
    for i, kind in enumerate(config.group):
      setattr(self, f"layer_{i}", Layer(config, kind, lora=lora, rngs=rngs))

  def layers(self) -> list[tuple[str, Any]]:
    names = sorted((n for n in vars(self) if n.startswith("layer_")), key=lambda n: int(n[6:]))
    return [(name, getattr(self, name)) for name in names]

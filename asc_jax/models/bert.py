"""BERT's encoder: bidirectional, post-layer-norm, learned positions.

RoBERTa is the same network with its positions counted from 2 (models/classifier.py).
The layers are stacked and scanned, so that a compiled program holds one of them;
which tokens are real comes from lengths, never from ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.models import loading
from asc_jax.types import UserError


@dataclasses.dataclass(frozen=True)
class BertConfig:
  """Sizes, named as in a checkpoint's config.json.

  Attributes:
    position_offset: the first token's row in the position table: 0 in BERT,
      2 in RoBERTa (whose table has two rows before it).
  """

  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  max_position_embeddings: int
  type_vocab_size: int = 2
  layer_norm_eps: float = 1e-12
  position_offset: int = 0

  @classmethod
  def from_dict(cls, raw: Mapping[str, Any], **overrides: Any) -> BertConfig:
    """Reads a checkpoint's config.json, already parsed."""
    if raw.get("hidden_act", "gelu") != "gelu":
      raise UserError(
        f"hidden_act {raw['hidden_act']!r} of a BERT checkpoint; only gelu is implemented"
      )
    config = loading.sizes(cls, {**raw, **overrides}, "BERT")
    if config.hidden_size % config.num_attention_heads:
      raise UserError(
        f"config.json of a BERT checkpoint: {config.num_attention_heads} heads do not divide the "
        f"width {config.hidden_size}; download it again"
      )
    return config

  @property
  def separators(self) -> int:
    """Special tokens between two texts: one in BERT, two in RoBERTa."""
    return 2 if self.position_offset else 1

  @property
  def window(self) -> int:
    """Tokens that one pass can read, special ones included."""
    return self.max_position_embeddings - self.position_offset


class Block(nnx.Module):
  """Self-attention and a two-layer MLP, each added and then normalised."""

  def __init__(self, config: BertConfig, rngs: nnx.Rngs):
    d, eps = config.hidden_size, config.layer_norm_eps
    self.heads = config.num_attention_heads
    self.query = nnx.Linear(d, d, rngs=rngs)
    self.key = nnx.Linear(d, d, rngs=rngs)
    self.value = nnx.Linear(d, d, rngs=rngs)
    self.out = nnx.Linear(d, d, rngs=rngs)
    self.attention_norm = nnx.LayerNorm(d, epsilon=eps, use_fast_variance=False, rngs=rngs)
    self.up = nnx.Linear(d, config.intermediate_size, rngs=rngs)
    self.down = nnx.Linear(config.intermediate_size, d, rngs=rngs)
    self.mlp_norm = nnx.LayerNorm(d, epsilon=eps, use_fast_variance=False, rngs=rngs)

  def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
    """x: [B, L, D]; mask: bool[B, 1, 1, L], the tokens that may be attended to."""
    split = (*x.shape[:2], self.heads, -1)
    q, k, v = (f(x).reshape(split) for f in (self.query, self.key, self.value))  # [B, L, N, H]
    attended = jax.nn.dot_product_attention(q, k, v, mask=mask)  # [B, L, N, H]
    x = self.attention_norm(x + self.out(attended.reshape(x.shape)))
    return self.mlp_norm(x + self.down(jax.nn.gelu(self.up(x), approximate=False)))


class Bert(nnx.Module):
  """Token ids to contextual embeddings."""

  def __init__(self, config: BertConfig, rngs: nnx.Rngs):
    self.config = config
    d = config.hidden_size
    self.words = nnx.Embed(config.vocab_size, d, rngs=rngs)
    self.positions = nnx.Embed(config.max_position_embeddings, d, rngs=rngs)
    self.types = nnx.Embed(config.type_vocab_size, d, rngs=rngs)
    self.norm = nnx.LayerNorm(d, epsilon=config.layer_norm_eps, use_fast_variance=False, rngs=rngs)
    self.blocks = nnx.vmap(lambda r: Block(config, r))(rngs.split(config.num_hidden_layers))

  def __call__(
    self, tokens: jax.Array, lengths: jax.Array, types: jax.Array | None = None
  ) -> jax.Array:
    """Encodes right-padded tokens.

    Args:
      tokens: int32[B, L]; what stands beyond a row's length is not read.
      lengths: int32[B].
      types: int32[B, L], rows of the table of token types; None: the first.

    Returns:
      [B, L, D]; rows beyond the length are finite and mean nothing.
    """
    where = jnp.arange(tokens.shape[1])  # [L]
    mask = where[None, None, None, :] < jnp.maximum(lengths, 1)[:, None, None, None]
    place = self.positions(where + self.config.position_offset)[None]  # [1, L, D]
    kind = self.types(jnp.zeros_like(where)[None] if types is None else types)  # [1 or B, L, D]
    x = self.norm(self.words(tokens) + (place + kind))
    graph, stacked = nnx.split(self.blocks)
    x, _ = jax.lax.scan(lambda x, one: (nnx.merge(graph, one)(x, mask), None), x, stacked)
    return x


_EMBEDDINGS = {
  "words.embedding": "embeddings.word_embeddings.weight",
  "positions.embedding": "embeddings.position_embeddings.weight",
  "types.embedding": "embeddings.token_type_embeddings.weight",
  "norm.scale": "embeddings.LayerNorm.weight",
  "norm.bias": "embeddings.LayerNorm.bias",
}
_BLOCK = {
  "query": "attention.self.query",
  "key": "attention.self.key",
  "value": "attention.self.value",
  "out": "attention.output.dense",
  "attention_norm": "attention.output.LayerNorm",
  "up": "intermediate.dense",
  "down": "output.dense",
  "mlp_norm": "output.LayerNorm",
}
_LEAF = {"kernel": "weight", "scale": "weight", "bias": "bias"}


def read_tensor(
  config: BertConfig, weights: Mapping[str, np.ndarray], prefix: str, path: str
) -> np.ndarray:
  """The tensor of one of `Bert`'s parameters, e.g. "blocks.query.kernel"."""
  tensors = loading.Tensors(weights, "BERT encoder", prefix)
  if not path.startswith("blocks."):
    return tensors(_EMBEDDINGS[path])
  _, module, leaf = path.split(".")
  name = f"{_BLOCK[module]}.{_LEAF[leaf]}"
  layers = range(config.num_hidden_layers)
  return np.stack(
    [tensors(f"encoder.layer.{i}.{name}", transpose=leaf == "kernel") for i in layers]
  )


def write_tensor(value: np.ndarray, prefix: str, path: str) -> dict[str, np.ndarray]:
  """The checkpoint's tensors that `read_tensor` reads for `path`."""
  if not path.startswith("blocks."):
    return {prefix + _EMBEDDINGS[path]: value}
  _, module, leaf = path.split(".")
  name = f"{_BLOCK[module]}.{_LEAF[leaf]}"
  return {
    f"{prefix}encoder.layer.{i}.{name}": layer.T if leaf == "kernel" else layer
    for i, layer in enumerate(value)
  }


def from_weights(config: BertConfig, weights: Mapping[str, np.ndarray]) -> Bert:
  """Builds the encoder from a checkpoint's tensors.

  Args:
    config: the sizes.
    weights: tensors by name, in PyTorch's layout (a linear map is [out, in]).

  Raises:
    UserError: naming a tensor that is missing or has another shape.
  """
  return loading.build(
    lambda: Bert(config, nnx.Rngs(0)), lambda path: read_tensor(config, weights, "", path)
  )

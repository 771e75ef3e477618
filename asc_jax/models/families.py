"""Model families: a checkpoint's config.json and tensor names, in the decoder's terms.

A family is a function from config.json to a `DecoderConfig`, a table of names and the
tensors that are skipped. docs/adding_a_model.md shows how to add one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig, Rope
from asc_jax.sharding import path_name
from asc_jax.types import UserError

Raw = Mapping[str, Any]  # config.json


class Leaf(NamedTuple):
  """Where the values of one parameter are in a checkpoint.

  Attributes:
    path: of the parameter, joined by "/".
    shape: of the parameter.
    names: the tensor of each row of a stacked parameter, or the one tensor.
    stacked: whether axis 0 goes over `names`.
    transpose: a kernel is the tensor transposed.
    rows: which rows of the tensor, int64[out], for tensors that several parameters
      share; None takes all.
    tensor_shape: of each tensor.
  """

  path: str
  shape: tuple[int, ...]
  names: tuple[str, ...]
  stacked: bool
  transpose: bool
  rows: np.ndarray | None
  tensor_shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Family:
  """One architecture.

  Attributes:
    config: fields of `DecoderConfig` that config.json gives.
    layer: {parameter path within a layer: tensor name within a layer}.
    top: {parameter path: tensor name} of what is outside the layers.
    prefix: tensor name of layer {}.
    skip: patterns of tensors that the decoder does not need.
    rows: for tensors that several parameters share: a function of the config to
      {parameter path within a layer: row numbers}.
  """

  config: Callable[[_Fields], dict[str, Any]]
  layer: Mapping[str, str]
  top: Mapping[str, str]
  prefix: str = "model.layers.{}."
  skip: tuple[str, ...] = ()
  rows: Callable[[decoder.DecoderConfig], dict[str, np.ndarray]] | None = None


class _Fields:
  """config.json with errors that name the file and the field."""

  def __init__(self, raw: Raw, where: str):
    self.raw = raw
    self.where = where

  def __getitem__(self, name: str) -> Any:
    value = self.raw.get(name)
    if value is None:
      raise UserError(f"{self.where} lacks {name}; give the checkpoint's own config.json")
    return value

  def get(self, name: str, default: Any = None) -> Any:
    value = self.raw.get(name)
    return default if value is None else value

  def require(self, name: str, wanted: Any) -> None:
    """The decoder implements one value of this field only."""
    value = self.get(name, wanted)
    if value != wanted:
      raise UserError(f"{self.where}: {name}={value!r} is not supported, only {wanted!r}")


def _rope(fields: _Fields) -> Rope:
  scaling = dict(fields.get("rope_parameters") or fields.get("rope_scaling") or {})
  theta = float(scaling.get("rope_theta", fields.get("rope_theta", 10_000.0)))
  kind = scaling.get("rope_type", scaling.get("type", "default"))
  try:
    # Dynamic scaling changes nothing within max_position_embeddings, the most we run.
    if kind in ("default", "dynamic"):
      return Rope(theta)
    if kind == "llama3":
      low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
      original = int(scaling["original_max_position_embeddings"])
      return Rope(theta, llama3=(float(scaling["factor"]), low, high, original))
    if kind == "linear":
      return Rope(theta, divisors=(float(scaling["factor"]),))
    one_table = kind == "longrope" and scaling["short_factor"] == scaling["long_factor"]
    if one_table and scaling.get("attention_factor") == 1.0:
      return Rope(theta, divisors=tuple(map(float, scaling["long_factor"])))
  except KeyError as error:
    raise UserError(f"{fields.where}: rope scaling {kind!r} lacks {error}") from error
  raise UserError(
    f"{fields.where}: rope_type {kind!r} is not supported "
    "(supported: default, dynamic, linear, llama3, longrope with one table)"
  )


def _common(fields: _Fields, attention: AttentionConfig) -> dict[str, Any]:
  return {
    "vocab_size": fields["vocab_size"],
    "width": fields["hidden_size"],
    "mlp_width": fields["intermediate_size"],
    "num_layers": fields["num_hidden_layers"],
    "group": (attention,),
    "norm_eps": float(fields["rms_norm_eps"]),
    "tied": bool(fields.get("tie_word_embeddings", False)),
  }


def _attention(fields: _Fields, **parts: Any) -> AttentionConfig:
  heads = fields["num_attention_heads"]
  return AttentionConfig(
    heads=heads,
    kv_heads=fields.get("num_key_value_heads", heads),
    head_dim=fields.get("head_dim", fields["hidden_size"] // heads),
    rope=_rope(fields),
    **parts,
  )


def _llama(fields: _Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("attention_bias", False)
  fields.require("mlp_bias", False)
  return _common(fields, _attention(fields))


def _qwen2(fields: _Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("use_sliding_window", False)
  return _common(fields, _attention(fields, qkv_bias=True))


def _qwen3(fields: _Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("attention_bias", False)
  fields.require("use_sliding_window", False)
  return _common(fields, _attention(fields, qk_norm="head"))


_TOP = {
  "embed/embedding": "model.embed_tokens.weight",
  "final_norm/scale": "model.norm.weight",
  "head/kernel": "lm_head.weight",
}
_LAYER = {
  "attn_norm/scale": "input_layernorm.weight",
  "mlp_norm/scale": "post_attention_layernorm.weight",
  "attn/q_norm/scale": "self_attn.q_norm.weight",
  "attn/k_norm/scale": "self_attn.k_norm.weight",
} | {
  f"{part}/{name}/{ours}": f"{theirs}.{name}.{suffix}"
  for part, theirs, names in (
    ("attn", "self_attn", ("q_proj", "k_proj", "v_proj", "o_proj")),
    ("mlp", "mlp", ("gate_proj", "up_proj", "down_proj")),
  )
  for name in names
  for ours, suffix in (("kernel", "weight"), ("bias", "bias"))
}
# Buffers that old checkpoints carry; they follow from the config.
_BUFFERS = (r".*rotary_emb\.inv_freq",)


def _internlm2(fields: _Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("bias", False)
  return _common(fields, _attention(fields))


def _internlm2_rows(config: decoder.DecoderConfig) -> dict[str, np.ndarray]:
  """Rows of wqkv: for each key head its query heads, then the key, then the value."""
  attention = config.group[0]
  heads, repeat = attention.kv_heads, attention.heads // attention.kv_heads
  shape = (heads, repeat + 2, attention.head_dim)
  rows = np.arange(np.prod(shape)).reshape(shape)
  return {
    "attn/q_proj/kernel": rows[:, :repeat].reshape(-1),
    "attn/k_proj/kernel": rows[:, repeat].reshape(-1),
    "attn/v_proj/kernel": rows[:, repeat + 1].reshape(-1),
  }


_INTERNLM2 = Family(
  _internlm2,
  layer={
    "attn_norm/scale": "attention_norm.weight",
    "attn/q_proj/kernel": "attention.wqkv.weight",
    "attn/k_proj/kernel": "attention.wqkv.weight",
    "attn/v_proj/kernel": "attention.wqkv.weight",
    "attn/o_proj/kernel": "attention.wo.weight",
    "mlp_norm/scale": "ffn_norm.weight",
    "mlp/gate_proj/kernel": "feed_forward.w1.weight",
    "mlp/up_proj/kernel": "feed_forward.w3.weight",
    "mlp/down_proj/kernel": "feed_forward.w2.weight",
  },
  top={
    "embed/embedding": "model.tok_embeddings.weight",
    "final_norm/scale": "model.norm.weight",
    "head/kernel": "output.weight",
  },
  skip=_BUFFERS,
  rows=_internlm2_rows,
)

FAMILIES: dict[str, Family] = {
  "internlm2": _INTERNLM2,
  "llama": Family(_llama, _LAYER, _TOP, skip=_BUFFERS),
  "qwen2": Family(_qwen2, _LAYER, _TOP, skip=_BUFFERS),
  "qwen3": Family(_qwen3, _LAYER, _TOP, skip=_BUFFERS),
}


def parse(raw: Raw, where: str, **compute: Any) -> decoder.DecoderConfig:
  """The decoder that a config.json describes.

  Args:
    raw: the parsed config.json.
    where: its path, for messages.
    **compute: how it computes: dtype, attention, remat of `DecoderConfig`.

  Raises:
    UserError: naming what is not supported, and what is.
  """
  family = raw.get("model_type")
  if family not in FAMILIES:
    raise UserError(
      f"{where}: model_type {family!r} is not supported (supported: {', '.join(sorted(FAMILIES))})"
    )
  if raw.get("quantization_config"):
    raise UserError(
      f"{where}: quantised weights are not supported; take the unquantised checkpoint"
    )
  fields = FAMILIES[family].config(_Fields(raw, where))
  return decoder.DecoderConfig(family=family, **fields, **compute)


def abstract(config: decoder.DecoderConfig) -> dict[str, Any]:
  """Shapes and types of the parameters, without arrays."""
  return jax.eval_shape(lambda: decoder.init(config, jax.random.key(0))).params


def leaves(config: decoder.DecoderConfig, params: Any) -> list[Leaf]:
  """Where each parameter's values are, in the order of `jax.tree.leaves(params)`.

  `params` is the tree of `abstract`, or of arrays.
  """
  return [
    _leaf(config, path_name(path), tuple(x.shape))
    for path, x in jax.tree_util.tree_leaves_with_path(params)
  ]


def _leaf(config: decoder.DecoderConfig, path: str, shape: tuple[int, ...]) -> Leaf:
  family = FAMILIES[config.family]
  transpose = path.endswith("/kernel")
  match = re.fullmatch(r"blocks/layer_(\d+)/(.*)", path)
  rows = None
  names: tuple[str, ...]
  if match is None:
    names, tensor_shape = (family.top[path],), shape
  else:
    period, local = len(config.group), match[2]
    numbers = range(int(match[1]), config.num_layers, period)
    names = tuple(family.prefix.format(n) + family.layer[local] for n in numbers)
    tensor_shape = shape[1:]
    if family.rows is not None:
      rows = family.rows(config).get(local)
  if transpose:
    tensor_shape = tensor_shape[::-1]
  if rows is not None:
    tensor_shape = (_shared_rows(config, names[0]), *tensor_shape[1:])
  return Leaf(path, shape, names, match is not None, transpose, rows, tensor_shape)


def _shared_rows(config: decoder.DecoderConfig, name: str) -> int:
  """Rows of a tensor that several parameters share."""
  family = FAMILIES[config.family]
  assert family.rows is not None
  suffix = name.removeprefix(family.prefix.format(0))
  parts = family.rows(config)
  return sum(len(parts[local]) for local, theirs in family.layer.items() if theirs == suffix)


def skipped(config: decoder.DecoderConfig, name: str) -> bool:
  """Whether the decoder does without this tensor of a checkpoint."""
  patterns = FAMILIES[config.family].skip
  if config.tied and name == FAMILIES[config.family].top["head/kernel"]:
    return True
  return any(re.fullmatch(pattern, name) for pattern in patterns)

"""The architectures themselves: what config.json means, and what tensors are called.

A family is a function from config.json to fields of `DecoderConfig`, a table of names
and the tensors that are skipped. docs/adding_a_model.md shows how to add one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asc_jax.config import DELTA_PROJECTIONS
from asc_jax.models.decoder import DecoderConfig
from asc_jax.models.delta_net import DeltaConfig
from asc_jax.models.layers import AttentionConfig, Rope
from asc_jax.types import UserError


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

  config: Callable[[Fields], dict[str, Any]]
  layer: Mapping[str, str]
  top: Mapping[str, str]
  prefix: str = "model.layers.{}."
  skip: tuple[str, ...] = ()
  rows: Callable[[DecoderConfig], dict[str, np.ndarray]] | None = None


def _positive(value: Any, kinds: Any) -> bool:
  return isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < math.inf


_TESTS: dict[str, Callable[[Any], bool]] = {
  "a positive integer": lambda value: _positive(value, int),
  "a positive number": lambda value: _positive(value, (int, float)),
  "true or false": lambda value: isinstance(value, bool),
  "an object": lambda value: isinstance(value, Mapping),
  "a list of strings": lambda value: isinstance(value, list) and {*map(type, value)} <= {str},
}
# What the fields that are read hold; the others have one value that is implemented.
_TAKES = {
  **dict.fromkeys(
    (
      "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
      "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window",
      "max_position_embeddings", "original_max_position_embeddings",
      "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
      "linear_value_head_dim", "linear_conv_kernel_dim",
      "num_global_key_value_heads", "global_head_dim",
    ),
    "a positive integer",
  ),
  **dict.fromkeys(
    (
      "rms_norm_eps", "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor",
      "high_freq_factor", "final_logit_softcapping",
    ),
    "a positive number",
  ),
  **dict.fromkeys(("tie_word_embeddings", "attention_k_eq_v"), "true or false"),
  **dict.fromkeys(
    (
      "rope_parameters", "rope_scaling", "text_config", "per_layer_config",
      "sliding_attention", "full_attention",
    ),
    "an object",
  ),
  "layer_types": "a list of strings",
}  # fmt: skip


class Fields:
  """config.json with errors that name the file, the field and what it takes."""

  def __init__(self, raw: Mapping[str, Any], where: str):
    self.raw = raw
    self.where = where

  def __getitem__(self, name: str) -> Any:
    value = self.get(name)
    if value is None:
      raise UserError(f"{self.where} lacks {name}; give the checkpoint's own config.json")
    return value

  def get(self, name: str, default: Any = None) -> Any:
    value, takes = self.raw.get(name), _TAKES.get(name)
    if value is None:
      return default
    if takes is not None and not _TESTS[takes](value):
      raise UserError(
        f"{self.where}: {name} takes {takes}, not {value!r}; give the checkpoint's own config.json"
      )
    return value

  def part(self, *names: str) -> Fields:
    """The first of these objects that holds something; an empty one where none does."""
    for name in names:
      if found := self.get(name):
        return Fields(found, f"{self.where}, {name}")
    return Fields({}, self.where)

  def require(self, name: str, wanted: Any) -> None:
    """The decoder implements one value of this field only."""
    value = self.get(name, wanted)
    if value != wanted:
      raise UserError(f"{self.where}: {name}={value!r} is not supported, only {wanted!r}")


def _rope(fields: Fields) -> Rope:
  scaling = fields.part("rope_parameters", "rope_scaling")
  theta = float(scaling.get("rope_theta", fields.get("rope_theta", 10_000.0)))
  kind = scaling.get("rope_type", scaling.get("type", "default"))
  # Dynamic scaling changes nothing within max_position_embeddings, the most we run.
  if kind in ("default", "dynamic"):
    return Rope(theta)
  if kind == "llama3":
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    original = scaling["original_max_position_embeddings"]
    return Rope(theta, llama3=(float(scaling["factor"]), low, high, original))
  if kind == "linear":
    return Rope(theta, divisors=(float(scaling["factor"]),))
  one_table = kind == "longrope" and scaling["short_factor"] == scaling["long_factor"]
  if one_table and scaling.get("attention_factor") == 1.0:
    return Rope(theta, divisors=tuple(map(float, scaling["long_factor"])))
  raise UserError(
    f"{fields.where}: rope_type {kind!r} is not supported "
    "(supported: default, dynamic, linear, llama3, longrope with one table)"
  )


def _common(fields: Fields, attention: AttentionConfig) -> dict[str, Any]:
  return {
    "vocab_size": fields["vocab_size"],
    "width": fields["hidden_size"],
    "mlp_width": fields["intermediate_size"],
    "num_layers": fields["num_hidden_layers"],
    "group": (attention,),
    "norm_eps": float(fields["rms_norm_eps"]),
    "tied": bool(fields.get("tie_word_embeddings", False)),
  }


def _attention(fields: Fields, **parts: Any) -> AttentionConfig:
  heads = fields["num_attention_heads"]
  return AttentionConfig(
    heads=heads,
    kv_heads=fields.get("num_key_value_heads", heads),
    head_dim=fields.get("head_dim", fields["hidden_size"] // heads),
    rope=_rope(fields),
    **parts,
  )


def _llama(fields: Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("attention_bias", False)
  fields.require("mlp_bias", False)
  return _common(fields, _attention(fields))


def _qwen2(fields: Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("use_sliding_window", False)
  return _common(fields, _attention(fields, qkv_bias=True))


def _qwen3(fields: Fields) -> dict[str, Any]:
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


def _internlm2(fields: Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("bias", False)
  return _common(fields, _attention(fields))


def _internlm2_rows(config: DecoderConfig) -> dict[str, np.ndarray]:
  """Rows of wqkv: for each key head its query heads, then the key, then the value."""
  attention = config.group[0]
  assert isinstance(attention, AttentionConfig)
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


def _olmo2(fields: Fields) -> dict[str, Any]:
  fields.require("hidden_act", "silu")
  fields.require("attention_bias", False)
  common = _common(fields, _attention(fields, qk_norm="all"))
  return common | {"norms": ("attn_post_norm", "mlp_post_norm")}


_OLMO2 = Family(
  _olmo2,
  layer=_LAYER
  | {
    "attn_post_norm/scale": "post_attention_layernorm.weight",
    "mlp_post_norm/scale": "post_feedforward_layernorm.weight",
  },
  top=_TOP,
  skip=_BUFFERS,
)


def _group(fields: Fields, kinds: Mapping[str, Any]) -> tuple[Any, ...]:
  """The shortest run of layers that `layer_types` repeats, as the kinds they name."""
  types = fields["layer_types"]
  if len(types) != fields["num_hidden_layers"]:
    raise UserError(
      f"{fields.where}: layer_types names {len(types)} layers, num_hidden_layers is "
      f"{fields['num_hidden_layers']}"
    )
  for name in types:
    if name not in kinds:
      raise UserError(f"{fields.where}: layer type {name!r} is not supported")
  for size in range(1, len(types) + 1):
    if len(types) % size == 0 and types == types[:size] * (len(types) // size):
      break
  return tuple(kinds[name] for name in types[:size])


def text_part(fields: Fields) -> Fields:
  """The decoder's part of a config.json that also describes a vision tower."""
  if "text_config" not in fields.raw:
    return fields
  text = fields.part("text_config")
  outer = {k: fields.raw[k] for k in ("tie_word_embeddings",) if k in fields.raw}
  return Fields({**text.raw, **outer}, text.where)


def _qwen35(fields: Fields) -> dict[str, Any]:
  fields = text_part(fields)
  fields.require("hidden_act", "silu")
  fields.require("attention_bias", False)
  full = _attention(fields, qk_norm="head", gated=True)
  rope = fields.part("rope_parameters")
  part = rope.get("partial_rotary_factor", fields.get("partial_rotary_factor", 0.25))
  full = dataclasses.replace(
    full, rope=dataclasses.replace(full.rope, rotary=int(full.head_dim * part))
  )
  delta = DeltaConfig(
    key_heads=fields["linear_num_key_heads"],
    value_heads=fields["linear_num_value_heads"],
    key_dim=fields["linear_key_head_dim"],
    value_dim=fields["linear_value_head_dim"],
    conv_width=fields["linear_conv_kernel_dim"],
  )
  group = _group(fields, {"full_attention": full, "linear_attention": delta})
  return _common(fields, full) | {"group": group, "norm_offset": 1.0}


_QWEN35_LAYER = _LAYER | {
  f"delta/{ours}": f"linear_attn.{theirs}"
  for ours, theirs in (
    *((f"{name}/kernel", f"{name}.weight") for name in DELTA_PROJECTIONS),
    ("conv/weight", "conv1d.weight"),
    ("norm/scale", "norm.weight"),
    ("dt_bias", "dt_bias"),
    ("a_log", "A_log"),
  )
}
_INSIDE = {
  "embed/embedding": "model.language_model.embed_tokens.weight",
  "final_norm/scale": "model.language_model.norm.weight",
  "head/kernel": "lm_head.weight",
}
# Further heads that predict several tokens, and the vision tower.
_QWEN35_SKIP = (*_BUFFERS, r"mtp\..*", r"model\.visual\..*")


def _gemma4(fields: Fields) -> dict[str, Any]:
  fields = text_part(fields)
  fields.require("hidden_activation", "gelu_pytorch_tanh")
  for name in ("attention_bias", "enable_moe_block", "use_double_wide_mlp"):
    fields.require(name, False)
  for name in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
    fields.require(name, 0)
  ropes = fields.part("rope_parameters")
  sliding = _attention(
    Fields(dict(fields.raw) | {"rope_parameters": ropes["sliding_attention"]}, fields.where),
    qk_norm="head",
    value_norm=True,
    scale=1.0,
  )
  heads, size = _gemma4_full(fields)
  rope = ropes.part("full_attention")
  if rope.get("rope_type") != "proportional":
    raise UserError(
      f"{fields.where}: full layers with rope_type {rope.get('rope_type')!r}, not proportional"
    )
  full = dataclasses.replace(
    sliding,
    kv_heads=heads,
    head_dim=size,
    shared_values=bool(fields.get("attention_k_eq_v", False)),
    rope=Rope(
      float(rope["rope_theta"]),
      divisors=(float(rope.get("factor", 1.0)),),
      nonzero=int(rope.get("partial_rotary_factor", 1.0) * size // 2),
    ),
  )
  sliding = dataclasses.replace(sliding, window=fields["sliding_window"])
  group = _group(fields, {"sliding_attention": sliding, "full_attention": full})
  return _common(fields, full) | {
    "group": group,
    "norms": ("attn_norm", "attn_post_norm", "mlp_norm", "mlp_post_norm"),
    "activation": "gelu_tanh",
    "layer_scale": True,
    "embed_scale": float(fields["hidden_size"]) ** 0.5,
    "softcap": fields.get("final_logit_softcapping"),
    "tied": bool(fields.get("tie_word_embeddings", True)),
  }


def _gemma4_full(fields: Fields) -> tuple[int, int]:
  """Key heads and head width of the full layers, in either of the two notations."""
  types, layers = fields["layer_types"], fields.get("per_layer_config")
  if layers is None:
    heads = fields["num_key_value_heads"]
    if fields.get("attention_k_eq_v", False):
      heads = fields.get("num_global_key_value_heads", heads)
    return heads, fields.get("global_head_dim", 512)
  layers = {int(number): changes for number, changes in layers.items()}  # "05" as well as "5"
  full = [i for i, name in enumerate(types) if name == "full_attention"]
  if set(layers) - set(full):
    raise UserError(f"{fields.where}: per_layer_config of sliding layers is not supported")
  kinds = {tuple(sorted(dict(layers.get(i, {})).items())) for i in full}
  changes = Fields(dict(next(iter(kinds))), f"{fields.where}, per_layer_config")
  if len(kinds) > 1 or not set(changes.raw) <= {"head_dim", "num_key_value_heads"}:
    raise UserError(f"{fields.where}: full layers that differ from each other are not supported")
  heads = changes.get("num_key_value_heads", fields["num_key_value_heads"])
  return heads, changes.get("head_dim", fields["head_dim"])


_GEMMA4_LAYER = _LAYER | {
  "attn_post_norm/scale": "post_attention_layernorm.weight",
  "mlp_norm/scale": "pre_feedforward_layernorm.weight",
  "mlp_post_norm/scale": "post_feedforward_layernorm.weight",
  "layer_scale": "layer_scalar",
}
_GEMMA4_SKIP = (*_BUFFERS, r"model\.(vision_tower|embed_vision|audio_tower|embed_audio)\..*")

FAMILIES: dict[str, Family] = {
  "gemma4": Family(
    _gemma4, _GEMMA4_LAYER, _INSIDE, "model.language_model.layers.{}.", skip=_GEMMA4_SKIP
  ),
  "gemma4_text": Family(_gemma4, _GEMMA4_LAYER, _TOP, skip=_GEMMA4_SKIP),
  "olmo2": _OLMO2,
  "qwen3_5": Family(
    _qwen35, _QWEN35_LAYER, _INSIDE, "model.language_model.layers.{}.", skip=_QWEN35_SKIP
  ),
  "qwen3_5_text": Family(_qwen35, _QWEN35_LAYER, _TOP, skip=_QWEN35_SKIP),
  "internlm2": _INTERNLM2,
  "llama": Family(_llama, _LAYER, _TOP, skip=_BUFFERS),
  "qwen2": Family(_qwen2, _LAYER, _TOP, skip=_BUFFERS),
  "qwen3": Family(_qwen3, _LAYER, _TOP, skip=_BUFFERS),
}

"""A checkpoint's config.json and tensor names, in the decoder's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from asc_jax.models import decoder
from asc_jax.models.architectures import FAMILIES, Fields, text_part
from asc_jax.sharding import path_name
from asc_jax.types import UserError


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


def parse(raw: Mapping[str, Any], where: str, **compute: Any) -> decoder.DecoderConfig:
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
  try:
    fields = FAMILIES[family].config(Fields(raw, where))
  except (TypeError, ValueError) as error:  # within a list or an object
    raise UserError(
      f"{where}: a field has a value of the wrong type ({error}); give the checkpoint's own "
      "config.json"
    ) from error
  return decoder.DecoderConfig(family=family, **fields, **compute)


def positions(raw: Mapping[str, Any], where: str) -> int | None:
  """Tokens that a model with this config.json was made for; None where it does not say."""
  return text_part(Fields(raw, where)).get("max_position_embeddings")


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

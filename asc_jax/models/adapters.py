"""Reading an adapter in peft's layout, as `checkpoints.export_adapter` writes it."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from flax import traverse_util

from asc_jax import sharding
from asc_jax.models import checkpoints, families
from asc_jax.models.decoder import DecoderConfig, DecoderState
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

WEIGHTS = "adapter_model.safetensors"
# Fields of adapter_config.json that change what the tensors mean, and where they do not.
_PLAIN: dict[str, tuple[Any, ...]] = {
  "peft_type": ("LORA",),
  "bias": ("none",),
  "fan_in_fan_out": (None, False),
  "use_dora": (None, False),
  "use_rslora": (None, False),
  "rank_pattern": (None, {}),
  "alpha_pattern": (None, {}),
  "modules_to_save": (None, []),
}


class Adapter(NamedTuple):
  """An adapter as it lies on disk, known to fit a decoder.

  Attributes:
    path: the file of its tensors.
    lora: its rank, scale and projections.
    params: float32 NumPy arrays, as `DecoderState.adapter` holds them.
  """

  path: pathlib.Path
  lora: LoraConfig
  params: dict[str, Any]


def read(folder: str | pathlib.Path, config: DecoderConfig) -> Adapter:
  """Reads a folder with adapter_config.json and adapter_model.safetensors.

  Args:
    folder: where the adapter lies.
    config: the decoder's that it was trained on, whose weights need not be read yet.

  Raises:
    UserError: naming the file, field or tensor that is wrong, or is not this decoder's.
  """
  folder = pathlib.Path(folder)
  raw = checkpoints.read_json(folder / "adapter_config.json")
  for field, plain in _PLAIN.items():
    if raw.get(field) not in plain:
      raise UserError(
        f"{folder}/adapter_config.json: {field}={raw.get(field)!r} is not supported; take a "
        "LoRA adapter of the plain kind"
      )
  path = folder / WEIGHTS
  try:
    tensors = safetensors.numpy.load_file(path)
  except (safetensors.SafetensorError, OSError) as error:
    raise UserError(f"{folder} holds no readable adapter ({error!r}); export it again") from error
  rank, alpha = raw.get("r", 0), raw.get("lora_alpha", 0)
  numbers = type(rank) is int and type(alpha) in (int, float)  # True is neither
  if not numbers or not 0 < float(alpha) < math.inf:
    raise UserError(
      f"{folder}/adapter_config.json: r={rank!r} and lora_alpha={alpha!r}; a rank and a number "
      "above 0 are right, so export it again"
    )
  found = _placed(config, tensors, rank, path)
  targets = tuple(sorted({keys[-2] for keys in found}))
  return Adapter(path, LoraConfig(rank, float(alpha), targets), traverse_util.unflatten_dict(found))


def attach(
  state: DecoderState, adapter: Adapter, mesh: jax.sharding.Mesh | None = None
) -> DecoderState:
  """`state` with an adapter that was read for it; `mesh` as in `checkpoints.load`."""
  params = jax.tree.map(jnp.asarray, adapter.params)
  if mesh is not None:
    params = sharding.shard(params, mesh)
  return dataclasses.replace(state, adapter=params, lora=adapter.lora)


def _placed(
  config: DecoderConfig, tensors: dict[str, np.ndarray], rank: int, path: pathlib.Path
) -> dict[tuple[str, ...], np.ndarray]:
  """{keys: [layers, ...]} of the decoder's tree; takes every tensor out of `tensors`."""
  found = {}
  for leaf in families.leaves(config, {"blocks": families.abstract(config)["blocks"]}):
    stem, _, kind = leaf.path.rpartition("/")
    if kind != "kernel" or leaf.rows is not None:
      continue
    modules = [f"base_model.model.{name.removesuffix('.weight')}" for name in leaf.names]
    if f"{modules[0]}.lora_A.weight" not in tensors:
      continue
    _, wide, out = leaf.shape
    for side, shape in (("A", (wide, rank)), ("B", (rank, out))):
      rows = [_take(tensors, f"{module}.lora_{side}.weight", shape, path) for module in modules]
      found[(*stem.split("/"), f"lora_{side.lower()}")] = np.stack(rows)
  if tensors or not found:
    name = next(iter(tensors), "any adapter's tensors")
    raise UserError(f"{path}: the {config.family} model has no place for {name}")
  return found


def _take(
  tensors: dict[str, np.ndarray], name: str, shape: tuple[int, int], path: pathlib.Path
) -> np.ndarray:
  """A tensor, transposed, which leaves `tensors`."""
  if name not in tensors:
    raise UserError(f"{path} lacks {name}; export the adapter again")
  value = tensors.pop(name).T.astype(np.float32)
  if value.shape != shape:
    raise UserError(
      f"{path}: {name} is {list(value.T.shape)}, the model asks for {list(shape[::-1])}; it is of "
      "another model"
    )
  return value

"""Reading an adapter in peft's layout, as `checkpoints.export_adapter` writes it."""

from __future__ import annotations

import dataclasses
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
from asc_jax.models.decoder import DecoderState
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

WEIGHTS = "adapter_model.safetensors"
# Fields of adapter_config.json that change what the tensors mean, and where they do not.
_PLAIN: dict[str, tuple[Any, ...]] = {
  "peft_type": ("LORA",),
  "bias": ("none",),
  "use_dora": (None, False),
  "use_rslora": (None, False),
  "rank_pattern": (None, {}),
  "alpha_pattern": (None, {}),
  "modules_to_save": (None, []),
}


class AdapterFile(NamedTuple):
  """An adapter as it lies on disk."""

  path: pathlib.Path
  rank: int
  alpha: float
  tensors: dict[str, np.ndarray]


def read(folder: str | pathlib.Path) -> AdapterFile:
  """Reads a folder with adapter_config.json and adapter_model.safetensors.

  Raises:
    UserError: naming the file or field that is wrong.
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
    return AdapterFile(path, int(raw["r"]), float(raw["lora_alpha"]), tensors)
  except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
    raise UserError(f"{folder} holds no readable adapter ({error!r}); export it again") from error


def attach(
  state: DecoderState, file: AdapterFile, mesh: jax.sharding.Mesh | None = None
) -> DecoderState:
  """`state` with an adapter that was trained on it, in float32.

  Args:
    state: the decoder.
    file: the adapter.
    mesh: where it goes; None: the first device.

  Raises:
    UserError: naming the tensor that is missing, of another shape or has no place.
  """
  tensors = dict(file.tensors)
  tree = {}
  for leaf in families.leaves(state.config, {"blocks": state.params["blocks"]}):
    stem, _, kind = leaf.path.rpartition("/")
    if kind != "kernel" or leaf.rows is not None:
      continue
    modules = [f"base_model.model.{name.removesuffix('.weight')}" for name in leaf.names]
    if f"{modules[0]}.lora_A.weight" not in tensors:
      continue
    _, wide, out = leaf.shape
    for side, shape in (("A", (wide, file.rank)), ("B", (file.rank, out))):
      rows = [
        _take(tensors, f"{module}.lora_{side}.weight", shape, file.path) for module in modules
      ]
      tree[(*stem.split("/"), f"lora_{side.lower()}")] = jnp.asarray(np.stack(rows))
  if tensors or not tree:
    name = next(iter(tensors), "any adapter's tensors")
    raise UserError(f"{file.path}: the {state.config.family} model has no place for {name}")
  targets = tuple(sorted({path[-2] for path in tree}))
  adapter = traverse_util.unflatten_dict(tree)
  if mesh is not None:
    adapter = sharding.shard(adapter, mesh)
  return dataclasses.replace(
    state, adapter=adapter, lora=LoraConfig(file.rank, file.alpha, targets)
  )


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

"""All tensors of a small checkpoint folder at once, whatever they are stored in."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import safetensors.numpy

from asc_jax.models import torch_file
from asc_jax.models.safetensors import INDEX
from asc_jax.types import UserError

_TORCH = "pytorch_model.bin"


def files(folder: str | pathlib.Path) -> list[pathlib.Path]:
  """The files that hold a folder's weights."""
  folder = pathlib.Path(folder)
  found = sorted(folder.glob("*.safetensors")) or sorted(folder.glob(_TORCH))
  if not found:
    raise UserError(f"{folder} holds no *.safetensors and no {_TORCH}; give a checkpoint folder")
  return found


def read(folder: str | pathlib.Path) -> dict[str, np.ndarray]:
  """Tensors by name, from safetensors (several files too) or from pytorch_model.bin."""
  folder = pathlib.Path(folder)
  found = files(folder)
  if found[0].suffix == ".bin":
    return torch_file.state_dict(found[0])
  tensors: dict[str, np.ndarray] = {}
  for file in found:
    try:
      tensors |= safetensors.numpy.load_file(file)
    except (safetensors.SafetensorError, OSError) as e:
      raise UserError(f"{file} is not readable ({e}); fetch it again") from None
  if (folder / INDEX).exists():
    for name, file in json.loads((folder / INDEX).read_text())["weight_map"].items():
      if name not in tensors:
        raise UserError(f"{folder / file} with {name} is missing, though {INDEX} names it")
  return tensors

"""All tensors of a small checkpoint folder at once, whatever they are stored in."""

from __future__ import annotations

import pathlib

import numpy as np

from asc_jax.models import safetensors, torch_file
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
  source = safetensors.Source(folder, types=None)
  return {
    name: source.read(name, (slice(None),) * len(shape)) for name, shape in source.shapes.items()
  }

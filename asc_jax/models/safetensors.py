"""Safetensors folders: which tensor lies in which file, and slices of them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import ml_dtypes  # noqa: F401  gives numpy the bfloat16 that safetensors asks for
import numpy as np
import safetensors
import safetensors.numpy

from asc_jax.types import UserError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# Safetensors' names of the types that are read; quantised ones are refused.
TYPES = ("F64", "F32", "F16", "BF16")


class Source:
  """The tensors of a folder, read slice by slice from the mapped files.

  Opening reads headers only, and checks that every file of the index is there.

  Args:
    folder: the checkpoint's.
    types: those that tensors may have, under safetensors' names; None: any.

  Raises:
    UserError: naming the file or tensor that is missing or of another type.
  """

  def __init__(self, folder: str | pathlib.Path, types: Collection[str] | None = TYPES):
    self._folder = pathlib.Path(folder)
    self._file = _weight_map(self._folder)
    self._open = {file: _open(self._folder / file) for file in sorted(set(self._file.values()))}
    self.shapes: dict[str, tuple[int, ...]] = {}
    for name, file in self._file.items():
      if name not in self._open[file].keys():  # noqa: SIM118  a method, not a mapping
        raise UserError(f"{self._folder / file} lacks tensor {name}, which {INDEX} puts there")
      entry = self._open[file].get_slice(name)
      if types is not None and entry.get_dtype() not in types:
        raise UserError(
          f"{self._folder / file}: tensor {name} has type {entry.get_dtype()}, which is not "
          f"supported; take a checkpoint in {', '.join(types)}"
        )
      self.shapes[name] = tuple(entry.get_shape())

  def where(self, name: str) -> str:
    """The file that holds a tensor, for messages."""
    return str(self._folder / self._file[name])

  def read(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
    """`tensor[index]` in the type of the file, a fresh array."""
    entry = self._open[self._file[name]].get_slice(name)
    return entry[index]


def _weight_map(folder: pathlib.Path) -> dict[str, str]:
  """{tensor: file}, from the index or from the one file's header."""
  index = folder / INDEX
  if not index.exists():
    if not (folder / SINGLE).exists():
      raise UserError(f"{folder} has neither {SINGLE} nor {INDEX}; give a folder with weights")
    return dict.fromkeys(_open(folder / SINGLE).keys(), SINGLE)
  try:
    files = json.loads(index.read_text())["weight_map"]
  except (ValueError, KeyError) as error:
    raise UserError(f"{index} is no index of weights ({error!r}); download it again") from error
  for name in sorted(files):
    if not (folder / files[name]).exists():
      raise UserError(f"{folder / files[name]} is missing; {INDEX} puts {name} there; download it")
  return files


def _open(path: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    raise UserError(f"{path} is not readable ({error}); download it again") from error


def save(folder: pathlib.Path, named: Iterable[tuple[str, np.ndarray]], file_bytes: int) -> None:
  """Writes tensors as they come, a new file from every `file_bytes` on, and the index."""
  files: dict[str, str] = {}
  waiting: dict[str, np.ndarray] = {}
  total = 0

  def flush():
    file = f"model-{len(set(files.values())) + 1:05d}.safetensors"
    save_file(folder / file, waiting)
    files.update(dict.fromkeys(waiting, file))
    waiting.clear()

  for name, values in named:
    if sum(x.nbytes for x in waiting.values()) >= file_bytes:
      flush()
    waiting[name] = values
    total += values.nbytes
  if not files:
    save_file(folder / SINGLE, waiting)
    return
  flush()
  index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
  (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


def save_file(path: pathlib.Path, tensors: Mapping[str, np.ndarray]) -> None:
  """One file, marked as transformers and peft expect, readable by whom the umask allows."""
  path.touch()
  mode = path.stat().st_mode
  safetensors.numpy.save_file(dict(tensors), path, metadata={"format": "pt"})
  path.chmod(mode)  # the library's own files are for their owner alone

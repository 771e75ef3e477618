"""Reads PyTorch's .ckpt and .bin files without PyTorch, and runs nothing that is in them.

A file of `torch.save` is a zip: one pickle, and one raw file a storage. A pickle may
name any function of the machine; this reader knows tensors and containers, and
refuses everything else by name.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import pickle
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from asc_jax.types import UserError

_STORAGES: dict[str, Any] = {
  "DoubleStorage": np.float64,
  "FloatStorage": np.float32,
  "HalfStorage": np.float16,
  "BFloat16Storage": ml_dtypes.bfloat16,
  "LongStorage": np.int64,
  "IntStorage": np.int32,
  "ShortStorage": np.int16,
  "CharStorage": np.int8,
  "ByteStorage": np.uint8,
  "BoolStorage": np.bool_,
}


class _Storage(NamedTuple):
  values: np.ndarray  # one axis


def _tensor(storage, offset, size, stride, *_) -> np.ndarray:
  """torch._utils._rebuild_tensor_v2; a view outside its storage is refused."""
  last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
  if not isinstance(storage, _Storage) or min((offset, *size, *stride)) < 0:
    raise ValueError("a tensor without a storage")
  values = storage.values
  if 0 in size:
    return np.zeros(size, values.dtype)
  if last >= len(values):
    raise ValueError("a tensor that reaches beyond its storage")
  steps = [s * values.itemsize for s in stride]
  return np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False)


def _parameter(tensor, *_) -> np.ndarray:
  return tensor


# What a file may name: tensors, and containers that hold data and do nothing.
_KNOWN: dict[tuple[str, str], Any] = {
  ("torch._utils", "_rebuild_tensor_v2"): _tensor,
  ("torch._utils", "_rebuild_parameter"): _parameter,
  ("torch", "Size"): tuple,
  ("collections", "OrderedDict"): collections.OrderedDict,
  ("argparse", "Namespace"): argparse.Namespace,
  ("pytorch_lightning.utilities.parsing", "AttributeDict"): dict,
  ("lightning.pytorch.utilities.parsing", "AttributeDict"): dict,
  ("lightning_fabric.utilities.data", "AttributeDict"): dict,
  **{("torch", name): name for name in _STORAGES},
}


class _Unpickler(pickle.Unpickler):
  def __init__(self, file, path: pathlib.Path, storage: Callable[[str, str], _Storage]):
    super().__init__(file)
    self._path, self._storage = path, storage

  def find_class(self, module: str, name: str) -> Any:
    if (module, name) not in _KNOWN:
      raise UserError(
        f"{self._path} names {module}.{name}, which is no tensor and no container, so it is not "
        "read; save its state_dict alone and give that file"
      )
    return _KNOWN[module, name]

  def persistent_load(self, pid: Any) -> _Storage:
    kind, dtype, key, _, count = pid
    if kind != "storage" or dtype not in _STORAGES:
      raise ValueError(f"an object of the kind {kind!r}, {dtype!r}")
    found = self._storage(dtype, key)
    if len(found.values) != count:
      raise ValueError(f"storage {key} of {len(found.values)} values instead of {count}")
    return found


def load(path: str | pathlib.Path) -> Any:
  """The file's object, tensors as read-only NumPy arrays.

  Raises:
    UserError: for a file that is missing, damaged, or names anything but tensors
      and containers.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise UserError(f"{path} does not exist; give a file written by torch.save")
  if not zipfile.is_zipfile(path):
    raise UserError(f"{path} is no zip file; torch.save writes one since PyTorch 1.6")
  try:
    with zipfile.ZipFile(path) as archive:
      return _load(path, archive)
  except UserError:
    raise
  except Exception as e:  # a damaged archive or pickle can fail in any way
    raise UserError(f"{path} is damaged ({type(e).__name__}: {e}); fetch it again") from None


def _load(path: pathlib.Path, archive: zipfile.ZipFile) -> Any:
  pickles = [n for n in archive.namelist() if n == "data.pkl" or n.endswith("/data.pkl")]
  if len(pickles) != 1:
    raise UserError(f"{path} holds no data.pkl; give a file written by torch.save")
  root = pickles[0].removesuffix("data.pkl")
  if root + "byteorder" in archive.namelist() and archive.read(root + "byteorder") != b"little":
    raise UserError(f"{path} is big-endian; save it again on a little-endian machine")
  storages: dict[tuple[str, str], _Storage] = {}

  def storage(dtype: str, key: str) -> _Storage:
    if (dtype, key) not in storages:
      raw = archive.read(f"{root}data/{key}")
      storages[dtype, key] = _Storage(np.frombuffer(raw, _STORAGES[dtype]))
    return storages[dtype, key]

  with archive.open(pickles[0]) as file:
    return _Unpickler(file, path, storage).load()


def state_dict(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """The tensors by name, of a Lightning checkpoint or of a bare state_dict."""
  raw = load(path)
  tensors = raw.get("state_dict", raw) if isinstance(raw, dict) else None
  if not isinstance(tensors, dict) or not all(isinstance(v, np.ndarray) for v in tensors.values()):
    raise UserError(f"{path} holds no state_dict of tensors")
  return dict(tensors)

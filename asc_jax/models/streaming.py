"""Tensors from a checkpoint straight to their shards on the mesh.

Slices go from the mapped file into one shard's buffer and from there to its device,
cast on the way, so the host holds the largest shard and little more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import ml_dtypes
import numpy as np

from asc_jax import sharding
from asc_jax.models import families
from asc_jax.models.decoder import DecoderConfig

PIECE = 2**24  # bytes read from a file at one time


class Source(Protocol):
  """The tensors of a checkpoint under their safetensors names."""

  shapes: dict[str, tuple[int, ...]]

  def where(self, name: str) -> str: ...

  def read(self, name: str, index: tuple[slice, ...]) -> np.ndarray: ...


def read_params(source: Source, config: DecoderConfig, dtype: str, mesh=None) -> dict[str, Any]:
  """Every parameter on its devices."""
  tree = families.abstract(config)
  if mesh is None:
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    places = jax.tree.map(lambda _: here, tree)
  else:
    places = sharding.specs(tree, mesh)
  kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
  arrays = [
    _array(source, leaf, place, kind)
    for leaf, place in zip(families.leaves(config, tree), jax.tree.leaves(places), strict=True)
  ]
  return jax.tree.unflatten(jax.tree.structure(tree), arrays)


def _array(source: Source, leaf: families.Leaf, place: jax.sharding.Sharding, dtype) -> jax.Array:
  """One parameter, its shards one after the other.

  jax.make_array_from_callback would keep every local shard on the host until it has the
  last; here each leaves before the next is read.
  """
  devices: dict[tuple, list[jax.Device]] = {}
  for device, index in place.addressable_devices_indices_map(leaf.shape).items():
    assert index is not None
    bounds = tuple(s.indices(n)[:2] for s, n in zip(index, leaf.shape, strict=True))
    devices.setdefault(bounds, []).append(device)
  shards = []
  for bounds, replicas in devices.items():
    buffer = read_shard(source, leaf, bounds, dtype)
    # A buffer that the device array shared would outlive this loop on CPUs.
    copies = [jax.device_put(buffer, device, may_alias=False) for device in replicas]
    shards.extend(jax.block_until_ready(copies))
    del buffer
  return jax.make_array_from_single_device_arrays(leaf.shape, place, shards)


def read_shard(
  source: Source, leaf: families.Leaf, bounds: Sequence[tuple[int, int]], dtype
) -> np.ndarray:
  """The part of a parameter within `bounds`, (start, stop) an axis."""
  shard = np.empty([stop - start for start, stop in bounds], dtype)
  if not leaf.stacked:
    _fill(shard, source, leaf, leaf.names[0], bounds)
  else:
    for row, name in zip(shard, leaf.names[slice(*bounds[0])], strict=True):
      _fill(row, source, leaf, name, bounds[1:])
  return shard


def _fill(out: np.ndarray, source: Source, leaf: families.Leaf, name: str, bounds) -> None:
  """Reads `out` from one tensor, in pieces of at most about `PIECE` bytes."""
  if leaf.transpose:
    out, bounds = out.T, bounds[::-1]  # now as the tensor lies
  rows = np.arange(leaf.tensor_shape[0]) if leaf.rows is None else leaf.rows
  rows = rows[slice(*bounds[0])]
  columns = tuple(slice(*bound) for bound in bounds[1:])
  size = max(1, PIECE // (4 * math.prod(s.stop - s.start for s in columns)))
  # A piece is a run of neighbouring rows.
  breaks = set(np.flatnonzero(np.diff(rows) != 1) + 1) | {0, len(rows)}
  starts = sorted(breaks | set(range(0, len(rows), size)))
  for start, stop in itertools.pairwise(starts):
    index = (slice(int(rows[start]), int(rows[stop - 1]) + 1), *columns)
    out[start:stop] = source.read(name, index)

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
import jax.numpy as jnp
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
  kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
  targets = list(zip(families.leaves(config, tree), jax.tree.leaves(places), strict=True))
  largest = max(math.prod(place.shard_shape(leaf.shape)) for leaf, place in targets)
  scratch = np.empty(largest, kind)
  arrays = [_array(source, leaf, place, scratch) for leaf, place in targets]
  return jax.tree.unflatten(jax.tree.structure(tree), arrays)


def _array(
  source: Source, leaf: families.Leaf, place: jax.sharding.Sharding, scratch: np.ndarray
) -> jax.Array:
  """One parameter, its shards one after the other through the one host buffer."""
  shape = place.shard_shape(leaf.shape)
  buffer = scratch[: math.prod(shape)].reshape(shape)
  devices = iter(place.addressable_devices_indices_map(leaf.shape))
  placed: dict[tuple, jax.Array] = {}

  def shard(index: tuple[slice, ...] | None) -> jax.Array:
    assert index is not None  # None: of a device elsewhere
    # On its device already, for the caller keeps what it gets until it has the last shard.
    # Were a shard asked for in another order, it would be moved.
    device = next(devices)
    bounds = tuple(s.indices(n)[:2] for s, n in zip(index, leaf.shape, strict=True))
    if bounds not in placed:
      fill(buffer, source, leaf, bounds)
      # On CPUs device_put would share an aligned buffer, whatever its may_alias says.
      placed[bounds] = jax.block_until_ready(jnp.array(buffer, copy=True, device=device))
    return placed[bounds]

  return jax.make_array_from_callback(leaf.shape, place, shard)


def fill(
  shard: np.ndarray, source: Source, leaf: families.Leaf, bounds: Sequence[tuple[int, int]]
) -> None:
  """Reads the part of a parameter within `bounds`, (start, stop) an axis."""
  if not leaf.stacked:
    _fill(shard, source, leaf, leaf.names[0], bounds)
    return
  for row, name in zip(shard, leaf.names[slice(*bounds[0])], strict=True):
    _fill(row, source, leaf, name, bounds[1:])


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

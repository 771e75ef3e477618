"""Where a checker computes: on the policy's devices or on its own, on a mesh of its own.

A decoder's weights are split over all of these devices (the axis `tensor`, by the rules
of sharding.py), since the one document that it reads at a time cannot be. An encoder's
weights are whole on each device, and the rows of a batch are split.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from asc_jax import sharding
from asc_jax.types import UserError


def make_mesh(devices: str | None, policy: Mesh | None) -> Mesh | None:
  """The checker's mesh.

  Args:
    devices: numbers of `jax.devices()` with commas; None: those of `policy`.
    policy: the policy's mesh; None with `devices` None leaves all to jax.

  Raises:
    UserError: what is no number, or the number of no device.
  """
  if devices is None:
    return None if policy is None else sharding.make_mesh(tensor=-1, devices=policy.devices.flat)
  there = dict(enumerate(jax.devices()))
  try:
    numbers = [int(text) for text in devices.split(",")]
    chosen = [there[number] for number in numbers]
  except (ValueError, KeyError) as error:
    raise UserError(
      f"config.checker.devices={devices} takes numbers from 0 to {len(there) - 1} with commas"
    ) from error
  if len(set(numbers)) < len(numbers):
    raise UserError(f"config.checker.devices={devices} names a device twice")
  return sharding.make_mesh(tensor=-1, devices=chosen)


def replicated(state: Any, mesh: Mesh | None) -> Any:
  """An encoder's state, whole on each device."""
  return state if mesh is None else jax.device_put(state, NamedSharding(mesh, P()))


def rows(mesh: Mesh | None, *arrays: Any) -> tuple[Any, ...]:
  """Arrays [rows, ...] split over the devices; whole where the rows do not divide."""
  if mesh is None:
    return arrays
  place = P(sharding.AXES) if len(arrays[0]) % mesh.size == 0 else P()
  return jax.device_put(arrays, NamedSharding(mesh, place))

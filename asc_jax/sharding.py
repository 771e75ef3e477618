"""One mesh for policy, reference and checkers, and where each parameter lies on it.

Axes: `data` splits questions; `fsdp` splits questions too, and parameters; `tensor`
splits heads, the MLP's width and the vocabulary. Specs come from a parameter's path,
so Adam's moments and adapters get the spec of the weight whose path they carry.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from asc_jax.types import UserError

AXES = ("data", "fsdp", "tensor")
BATCH = ("data", "fsdp")

# Projections out of the residual stream, and those back into it.
_INTO = r"((q|k|v|gate|up)_proj|in_proj_(qkv|z|b|a))"
_BACK = r"(o|down|out)_proj"

# The first pattern that matches the end of a path wins. Specs are those of one layer;
# parameters under blocks/ have the axis of repeats in front, which stays whole.
RULES: tuple[tuple[str, P], ...] = (
  (r"embed/embedding", P("tensor", "fsdp")),  # [V, D]
  (r"head/kernel", P("fsdp", "tensor")),  # [D, V]
  (rf"{_INTO}/kernel", P("fsdp", "tensor")),  # [D, out]
  (rf"{_INTO}/lora_a", P("fsdp", None)),  # [D, r]
  (rf"{_INTO}/lora_b", P(None, "tensor")),  # [r, out]
  (r"(q|k|v)_proj/bias", P("tensor")),  # [out]
  (rf"{_BACK}/kernel", P("tensor", "fsdp")),  # [in, D]
  (rf"{_BACK}/lora_a", P("tensor", None)),  # [in, r]
  (rf"{_BACK}/lora_b", P(None, "fsdp")),  # [r, D]
  (r"conv/weight", P("tensor", None, None)),  # [C, 1, W]
  (r"delta/(dt_bias|a_log)", P(None)),
  (r"\w*norm/scale", P(None)),
  (r"layer_scale", P(None)),
)


def make_mesh(data: int = 1, fsdp: int = 1, tensor: int = 1, devices=None) -> Mesh:
  """A mesh of the given axis sizes; one of them may be -1, which takes what is left."""
  devices = jax.devices() if devices is None else list(devices)
  sizes = [data, fsdp, tensor]
  known = math.prod(s for s in sizes if s != -1)
  if -1 in sizes:
    sizes[sizes.index(-1)] = len(devices) // known
  count = math.prod(sizes)
  if count > len(devices) or count < 1:
    raise UserError(
      f"config.mesh={dict(zip(AXES, sizes, strict=True))} needs {count} devices; "
      f"there are {len(devices)}"
    )
  return Mesh(np.asarray(devices[:count]).reshape(sizes), AXES, axis_types=(AxisType.Auto,) * 3)


def path_name(path: tuple[Any, ...]) -> str:
  """A key path as text joined by slashes."""
  return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def spec(name: str, shape: tuple[int, ...], mesh: Mesh | AbstractMesh) -> P:
  """Where the parameter of this path lies.

  A dimension that an axis does not divide is kept whole on that axis.

  Raises:
    ValueError: no rule matches, or the rule is for another number of dimensions.
  """
  if not shape:
    return P()
  for pattern, rule in RULES:
    if re.search(rf"(^|/){pattern}$", name):
      stacked = re.search(r"(^|/)blocks/", name) is not None
      axes = (None, *rule) if stacked else tuple(rule)
      if len(axes) != len(shape):
        raise ValueError(
          f"parameter {name} has shape {shape}; the rule {pattern} is for {len(axes)} dimensions"
        )
      return P(
        *(a if a and n % mesh.shape[a] == 0 else None for a, n in zip(axes, shape, strict=True))
      )
  raise ValueError(
    f"no sharding rule matches parameter {name} of shape {shape}; add one to sharding.RULES"
  )


def specs(tree: Any, mesh: Mesh) -> Any:
  """A NamedSharding for each array (or shape) of parameters, moments or a DecoderState."""
  return jax.tree_util.tree_map_with_path(
    lambda path, x: NamedSharding(mesh, spec(path_name(path), x.shape, mesh)), tree
  )


def shard(tree: Any, mesh: Mesh) -> Any:
  """`tree` with every array where `specs` says."""
  return jax.device_put(tree, specs(tree, mesh))


def mesh_in_force(mesh: Mesh | None) -> contextlib.AbstractContextManager:
  """`jax.set_mesh`, where there is one."""
  return contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh)


def platform() -> str:
  """Where a program being traced will run: "cpu", "gpu" or "tpu".

  The mesh in force says so even when it compiles for devices that are not here.
  """
  device = jax.sharding.get_abstract_mesh().abstract_device
  return jax.default_backend() if device is None else device.platform


def batch_shards() -> int:
  """Parts into which the mesh in force splits the questions."""
  shape = jax.sharding.get_abstract_mesh().shape
  return math.prod(shape.get(axis, 1) for axis in BATCH)


def split_batch(x: jax.Array) -> jax.Array:
  """Keeps activations [B, ...] split by question, under `jax.set_mesh`."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or x.shape[0] % batch_shards():
    return x
  return jax.lax.with_sharding_constraint(x, P(BATCH))


def gathered(params: Any, dtype: str) -> Any:
  """Parameters (of one layer, not stacked) whole over fsdp, matrices in the compute type.

  Under `jax.set_mesh` the weights, already cast, then travel to the questions instead
  of the other way round, and their gradients come back split as the parameters are.
  """
  mesh = jax.sharding.get_abstract_mesh()

  def gather(path, x):
    name = path_name(path)
    at_rest = spec(name, x.shape, mesh)
    in_use = P(*(None if axis == "fsdp" else axis for axis in at_rest))
    x = jax.lax.with_sharding_constraint(x, at_rest)
    if name.endswith(("kernel", "embedding", "lora_a", "lora_b")):
      x = x.astype(dtype)
    return jax.lax.with_sharding_constraint(x, in_use)

  return params if mesh.empty else jax.tree_util.tree_map_with_path(gather, params)


def batch_spec(mesh: Mesh) -> NamedSharding:
  """Questions (the leading axis) over data and fsdp."""
  return NamedSharding(mesh, P(BATCH))


def spread_questions(tree: Any, mesh: Mesh) -> Any:
  """Host arrays [B, ...] on the mesh; each host gives its own share of the questions."""
  place = batch_spec(mesh)
  return jax.tree.map(lambda x: jax.make_array_from_process_local_data(place, x), tree)

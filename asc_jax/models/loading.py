"""A checkpoint's sizes and tensors for a Flax module, without making it twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.types import UserError

_TAKES = {"int": "an integer", "float": "a number", "bool": "true or false"}


def sizes(cls: Any, raw: Mapping[str, Any], what: str) -> Any:
  """The dataclass `cls` from the fields of that name in a parsed config.json.

  Args:
    cls: its fields are int, float or bool, as annotations in text.
    raw: null stands for the default.
    what: the model it should describe, for the error.

  Raises:
    UserError: naming a field that is missing or of the wrong type.
  """
  where, values = f"config.json of a {what} checkpoint", {}
  for field in dataclasses.fields(cls):
    value, kind = raw.get(field.name), str(field.type)
    if value is not None:
      if type(value).__name__ not in (kind, "int" if kind == "float" else None):
        raise UserError(
          f"{where}: {field.name} takes {_TAKES[kind]}, not {value!r}; download it again"
        )
      values[field.name] = value
    elif field.default is dataclasses.MISSING:
      raise UserError(f"{where} lacks {field.name}; download it again")
  return cls(**values)


class Tensors:
  """A checkpoint's tensors in PyTorch's layout, as float32.

  Args:
    weights: by name.
    what: the model they should be, for the error.
    prefix: what every name begins with, e.g. "roberta.".
  """

  def __init__(self, weights: Mapping[str, Any], what: str, prefix: str = ""):
    self._weights, self._what, self._prefix = weights, what, prefix

  def __call__(self, name: str, *, transpose: bool = False) -> np.ndarray:
    """One tensor; a linear map is [out, in] there and [in, out] here."""
    name = self._prefix + name
    if name not in self._weights:
      raise UserError(f"the checkpoint has no tensor {name}; it is no {self._what} of this config")
    value = np.asarray(self._weights[name], np.float32)
    return value.T if transpose else value


def build(make: Callable[[], nnx.Module], read: Callable[[str], np.ndarray]) -> Any:
  """`make()`, with each parameter read by its dotted path.

  Raises:
    UserError: as `parts`.
  """
  return nnx.merge(*parts(make, read))


def parts(make: Callable[[], nnx.Module], read: Callable[[str], np.ndarray]) -> tuple[Any, Any]:
  """What nnx.split would give of `build`, without making the module.

  A module is part of a cycle, so that its arrays stay until the collector runs.

  Raises:
    UserError: naming a parameter whose shape differs from the checkpoint's.
  """
  graph, abstract = nnx.split(nnx.eval_shape(make))
  flat = {}
  for path, leaf in nnx.to_flat_state(abstract):
    name = ".".join(map(str, path))
    value = read(name)
    if value.shape != leaf.shape:
      raise UserError(
        f"{name} is {value.shape} in the checkpoint and {leaf.shape} by its config.json"
      )
    flat[path] = leaf.replace(jnp.asarray(value))
  return graph, nnx.from_flat_state(flat)

"""Fills a Flax module with a checkpoint's tensors, without making it twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.types import UserError


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
  return nnx.merge(graph, nnx.from_flat_state(flat))

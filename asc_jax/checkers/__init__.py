"""The instruments that say whether a document supports a sentence."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax

from asc_jax.checkers import placement
from asc_jax.checkers.base import Checker
from asc_jax.checkers.cache import Cached, open_cache
from asc_jax.config import nearest
from asc_jax.types import UserError

__all__ = ["INSTRUMENTS", "Checker", "from_config", "load"]

# Name -> module and its loader; a module is imported when its instrument is asked for.
INSTRUMENTS = {
  "lexical": ("asc_jax.checkers.lexical", "load"),
  "minilm": ("asc_jax.checkers.minilm", "load"),
  "minilm_b": ("asc_jax.checkers.minilm", "load_twin"),
  "smollm2": ("asc_jax.checkers.smollm2", "load"),
  "smollm2_b": ("asc_jax.checkers.smollm2", "load_twin"),
  "minicheck_t5": ("asc_jax.checkers.minicheck_t5", "load"),
  "alignscore": ("asc_jax.checkers.alignscore", "load"),
  "bespoke": ("asc_jax.checkers.bespoke", "load"),
  "judge": ("asc_jax.checkers.judge", "load"),
  "gemma_judge": ("asc_jax.checkers.judge", "load_gemma"),
  "nli": ("asc_jax.checkers.alignscore", "load_nli"),
}

# Fields of the section `checker` that are an instrument's own.
OPTIONS = ("prompt", "adapter", "label", "head", "dtype", "tokens_per_batch")


def _loader(name: str) -> Callable[..., Checker]:
  if name not in INSTRUMENTS:
    raise UserError(
      f"checker {name!r} is none of {', '.join(INSTRUMENTS)}{nearest(name, INSTRUMENTS)}"
    )
  module, function = INSTRUMENTS[name]
  return getattr(importlib.import_module(module), function)


def load(
  name: str, path: str | None = None, *, mesh: jax.sharding.Mesh | None = None, **options: Any
) -> Checker:
  """Loads an instrument.

  Args:
    name: one of `INSTRUMENTS`.
    path: its checkpoint; None for those that are packaged.
    mesh: where it computes, see `placement`; `lexical` and `minilm` take no notice.
    **options: the instrument's own, see its module's `load`.

  Raises:
    UserError: naming an unknown instrument, a missing checkpoint or package.
  """
  loader = _loader(name)
  known = inspect.signature(loader).parameters
  for option in options:
    if option not in known:
      raise UserError(f"checker {name} has no option {option}; drop config.checker.{option}")
  if mesh is not None and "mesh" in known:
    options["mesh"] = mesh
  return loader(path, **options)


def from_config(section: Mapping[str, Any], mesh: jax.sharding.Mesh | None = None) -> Checker:
  """Loads the instrument that a config's section `checker` describes.

  It computes on its own devices, or else on those of `mesh`, the policy's. Its options are
  those fields that are set; the threshold becomes the instrument's, and with `cache` its
  scores are looked up on disk first.

  Raises:
    UserError: as `load`, and naming an option or device that does not suit it.
  """
  options = {name: section[name] for name in OPTIONS if section[name] is not None}
  name, devices = section["name"], section["devices"]
  if devices is not None and "mesh" not in inspect.signature(_loader(name)).parameters:
    raise UserError(f"checker {name} has no devices of its own; drop config.checker.devices")
  store = None if section["cache"] is None else open_cache(section["cache"])
  mesh = placement.make_mesh(devices, mesh)
  checker = load(name, section["path"], mesh=mesh, **options)
  checker.threshold = section["threshold"]
  return checker if store is None else Cached(checker, store)

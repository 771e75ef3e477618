"""The instruments that say whether a document supports a sentence."""

from __future__ import annotations

import importlib
from typing import Any

from asc_jax.checkers.base import Checker
from asc_jax.config import nearest
from asc_jax.data.documents import document
from asc_jax.types import UserError

__all__ = ["INSTRUMENTS", "Checker", "document", "load"]

# Name -> module and its loader; a module is imported when its instrument is asked for.
INSTRUMENTS = {
  "lexical": ("asc_jax.checkers.lexical", "load"),
  "minilm": ("asc_jax.checkers.minilm", "load"),
  "minicheck_t5": ("asc_jax.checkers.minicheck_t5", "load"),
  "alignscore": ("asc_jax.checkers.alignscore", "load"),
  "bespoke": ("asc_jax.checkers.bespoke", "load"),
  "judge": ("asc_jax.checkers.judge", "load"),
  "nli": ("asc_jax.checkers.alignscore", "load_nli"),
}


def load(name: str, path: str | None = None, **options: Any) -> Checker:
  """Loads an instrument.

  Args:
    name: one of `INSTRUMENTS`.
    path: its checkpoint; None for those that are packaged.
    **options: the instrument's own, see its module's `load`.

  Raises:
    UserError: naming an unknown instrument, a missing checkpoint or package.
  """
  if name not in INSTRUMENTS:
    raise UserError(
      f"checker {name!r} is none of {', '.join(INSTRUMENTS)}{nearest(name, INSTRUMENTS)}"
    )
  module, loader = INSTRUMENTS[name]
  return getattr(importlib.import_module(module), loader)(path, **options)

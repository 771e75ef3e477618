"""Prompts that people may edit: text files, the project's own or the user's."""

from __future__ import annotations

import importlib.resources
import pathlib

from asc_jax.data import files
from asc_jax.types import UserError


def read(path: str | None, packaged: str, field: str = "config.checker.prompt") -> str:
  """The text of a prompt file without its last line break; None reads the packaged one.

  Raises:
    UserError: naming `field`, which gave the path.
  """
  if path is None:
    text = importlib.resources.files("asc_jax.checkers").joinpath(f"prompts/{packaged}").read_text()
  else:
    if not pathlib.Path(path).is_file():
      raise UserError(f"{field}: there is no file {path}")
    text = files.text_of(pathlib.Path(path))
  if not text.strip():
    raise UserError(f"{field}: {path} is empty")
  return text.rstrip("\n")

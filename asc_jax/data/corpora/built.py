"""A data set that `tools.build_dataset` made of any other corpus."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator

from asc_jax.data import files, tfds_builder
from asc_jax.types import Example


def read(path: str | pathlib.Path | None, dropped: Counter[str]) -> Iterator[Example]:
  """Reads all parts of the data set in the folder `path`."""
  del dropped
  (folder,) = {file.parent for file in files.find(path, "dataset_info.json")}
  for part in tfds_builder.parts(folder):
    yield from tfds_builder.Source(folder, part)

"""Builds a corpus into a TFDS data set of array_record files, without tensorflow.

  python -m asc_jax.tools.build_dataset --config.data.corpus=clapnq \\
    --config.data.path=FOLDER --out=DATASETS

Writes `DATASETS/clapnq/1.0.0`, with one TFDS split for each part of the committed split.
Train on it with `--config.data.corpus=built --config.data.path=DATASETS/clapnq/1.0.0`,
or read a part in your own program as a grain source:

  grain.MapDataset.source(asc_jax.data.tfds_builder.Source(folder, "train"))
"""

from __future__ import annotations

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.data import corpora, tfds_builder
from asc_jax.types import UserError


def main(config, out: str | None) -> None:
  """Builds `config.data` into the folder `out`."""
  if not out:
    raise UserError("--out=FOLDER is missing: where the data set is written")
  data = config.data
  examples, dropped = corpora.read(data.corpus, data.path, passage_words=data.passage_words)
  folder, counts = tfds_builder.build(data.corpus, examples, out)
  print(f"{folder}: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
  for reason, n in sorted(dropped.items()):
    print(f"  dropped {n}: {reason}")


if __name__ == "__main__":
  cli.run(main, out=Field(None, "folder of data sets, made where absent", optional=True))

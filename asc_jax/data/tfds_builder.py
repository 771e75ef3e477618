"""Corpora as TFDS data sets, written and read without tensorflow.

TFDS needs tensorflow for its command line and for its default file format. Its
builder class and the array_record format do not, and an array_record file is a random
access source that grain reads as it is. A ragged field would need tensorflow again, so
ASQA's lists of aliases are stored flat, each alias with the number of its pair.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from asc_jax.data import files, splits
from asc_jax.types import Example, Passage, UserError

_LABELS = {-1: None, 0: False, 1: True}


class _Builder(tfds.core.GeneratorBasedBuilder):
  """Writes examples that are in memory; one TFDS split a part of the committed split."""

  VERSION = tfds.core.Version("1.0.0")
  name = "asc_jax_corpus"  # keeps the class out of TFDS's registry of named data sets

  def __init__(self, corpus: str, examples: Sequence[Example], out: pathlib.Path):
    self.name = corpus
    self._parts = {
      split: [e for e in examples if splits.of_example(e) == split] for split in splits.SPLITS
    }
    super().__init__(data_dir=out, file_format="array_record")

  def _info(self) -> tfds.core.DatasetInfo:
    text = tfds.features.Text
    features = {
      "id": text(),
      "corpus": text(),
      "question": text(),
      "passages": tfds.features.Sequence({"title": text(), "text": text()}),
      "answers": tfds.features.Sequence(text()),
      "qa_pairs": tfds.features.Sequence(
        {"pair": tfds.features.Scalar(dtype=np.int32), "alias": text()}
      ),
      "aliases": tfds.features.Sequence(text()),
      "answerable": tfds.features.Scalar(dtype=np.int8),  # -1: the corpus does not say
      "split_key": text(),
      "extra": text(),  # JSON
    }
    return tfds.core.DatasetInfo(
      builder=self,
      description=f"The questions of {self.name}, split by question (asc_jax/data/splits.py).",
      features=tfds.features.FeaturesDict(features),
      disable_shuffling=True,  # the corpus's own order; the pipeline shuffles
    )

  def _split_generators(self, dl_manager) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
    del dl_manager
    return {split: self._generate_examples(part) for split, part in self._parts.items() if part}

  def _generate_examples(self, examples) -> Iterator[tuple[int, dict[str, Any]]]:
    for key, example in enumerate(examples):
      yield key, _encode(example)


def build(
  corpus: str, examples: Sequence[Example], out: str | pathlib.Path
) -> tuple[pathlib.Path, dict[str, int]]:
  """Writes a data set to `out/corpus/1.0.0`.

  Args:
    corpus: the data set's name.
    examples: its questions; each goes to the part of the split that owns it.
    out: folder of data sets, made where absent.

  Returns:
    The data set's folder, and how many questions each part has.

  Raises:
    UserError: if it is there already: TFDS would silently keep the old rows; or if nothing
      can be written there.
  """
  target = pathlib.Path(out) / corpus / str(_Builder.VERSION)
  if target.exists():
    raise UserError(f"{target} exists already; remove it, or give another --out")
  folder = files.make_folder(out, "--out")
  tfds.disable_progress_bar()
  builder = _Builder(corpus, examples, folder)
  builder.download_and_prepare()
  return target, {name: split.num_examples for name, split in builder.info.splits.items()}


class Source(Sequence[Example]):
  """One part of a built data set, for `grain.MapDataset.source` or a loop.

  Args:
    folder: what `build` returned.
    split: one of `splits.SPLITS`.
  """

  def __init__(self, folder: str | pathlib.Path, split: str):
    builder = _open(folder)
    if split not in builder.info.splits:
      raise UserError(f"{folder} has no split {split!r}; it has {', '.join(builder.info.splits)}")
    self._rows = builder.as_data_source(split)

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(self, index):
    if isinstance(index, slice):
      return [self[i] for i in range(*index.indices(len(self)))]
    if not -len(self) <= index < len(self):
      raise IndexError(index)
    return _decode(self._rows[index % len(self)])


def parts(folder: str | pathlib.Path) -> list[str]:
  """The names of a built data set's parts."""
  return list(_open(folder).info.splits)


def _open(folder: str | pathlib.Path) -> tfds.core.DatasetBuilder:
  if not (pathlib.Path(folder) / "dataset_info.json").is_file():
    raise UserError(
      f"{folder} is no built data set: it holds no dataset_info.json (give the folder that ends in the version)"
    )
  return tfds.builder_from_directory(folder)


def _encode(example: Example) -> dict[str, Any]:
  pairs = enumerate(example.qa_pairs)
  return {
    "id": example.id,
    "corpus": example.corpus,
    "question": example.question,
    "passages": [p._asdict() for p in example.passages],
    "answers": list(example.answers),
    "qa_pairs": [{"pair": i, "alias": alias} for i, aliases in pairs for alias in aliases],
    "aliases": list(example.aliases),
    "answerable": next(n for n, label in _LABELS.items() if label is example.answerable),
    "split_key": example.split_key,
    "extra": json.dumps(example.extra, ensure_ascii=False),
  }


def _decode(row: Mapping[str, Any]) -> Example:
  pairs: dict[int, list[str]] = {}
  for pair, alias in zip(row["qa_pairs"]["pair"], row["qa_pairs"]["alias"], strict=True):
    pairs.setdefault(int(pair), []).append(alias.decode())
  titles, texts = row["passages"]["title"], row["passages"]["text"]
  return Example(
    id=row["id"].decode(),
    corpus=row["corpus"].decode(),
    question=row["question"].decode(),
    passages=tuple(Passage(a.decode(), b.decode()) for a, b in zip(titles, texts, strict=True)),
    answers=tuple(a.decode() for a in row["answers"]),
    qa_pairs=tuple(tuple(pairs[i]) for i in sorted(pairs)),
    aliases=tuple(a.decode() for a in row["aliases"]),
    answerable=_LABELS[int(row["answerable"])],
    split_key=row["split_key"].decode(),
    extra=_tuples(json.loads(row["extra"])),
  )


def _tuples(value: Any) -> Any:
  """JSON's lists as the tuples that they were."""
  return tuple(map(_tuples, value)) if isinstance(value, list) else value

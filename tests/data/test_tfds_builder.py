"""A corpus survives TFDS: written as array_record, read back through grain, no tensorflow."""

import subprocess
import sys
import textwrap

import grain
import pytest

from asc_jax.data import corpora, splits, tfds_builder
from asc_jax.types import Example, Passage, UserError


def _examples():
  return [
    Example(
      id=f"{i}",
      corpus="toy",
      question=f"Où est le no. {i} ?",
      passages=tuple(Passage("é" * (j % 2), f"text {j}") for j in range(1 + i % 3)),
      answers=tuple(f"answer {j}" for j in range(i % 2)),
      qa_pairs=tuple((f"a{j}", f"b{j}") if j else ("only",) for j in range(i % 4)),
      aliases=tuple("xyz"[: i % 3]),
      answerable=(None, True, False)[i % 3],
      split_key="" if i % 5 else f"key {i}",
      extra=(("pop", i), ("wrong", ("x", "y"))) if i % 2 else (),
    )
    for i in range(25)
  ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_round_trip_through_grain(tmp_path):
  examples = _examples()
  folder, counts = tfds_builder.build("toy", examples, tmp_path)
  assert folder == tmp_path / "toy" / "1.0.0"
  assert counts == {s: len(part) for s in splits.SPLITS if (part := _part(examples, s))}
  for split in counts:
    source = tfds_builder.Source(folder, split)
    assert list(source) == _part(examples, split)
    shuffled = list(grain.MapDataset.source(source).seed(1).shuffle())
    assert sorted(shuffled, key=lambda e: int(e.id)) == _part(examples, split)
  assert source[-1] == source[len(source) - 1] and source[:2] == list(source)[:2]
  assert all(p.name.startswith("toy-") for p in folder.glob("*array_record*"))


def _part(examples, split):
  return [e for e in examples if splits.of_example(e) == split]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_built_is_a_corpus_like_any_other(tmp_path):
  examples, _ = corpora.read("quickstart")
  folder, _ = tfds_builder.build("quickstart", examples, tmp_path)
  again, dropped = corpora.read("built", folder)
  assert sorted(again, key=lambda e: e.id) == sorted(examples, key=lambda e: e.id)
  assert not dropped


def test_a_file_in_the_way_is_named(tmp_path):
  (tmp_path / "out").write_text("")
  with pytest.raises(UserError, match=r"--out=.*out cannot be written \(File exists\)"):
    tfds_builder.build("toy", _examples(), tmp_path / "out")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_rows_are_not_silently_kept(tmp_path):
  tfds_builder.build("toy", _examples(), tmp_path)
  with pytest.raises(UserError, match="exists already"):
    tfds_builder.build("toy", _examples()[:3], tmp_path)


def test_wrong_folder_or_split(tmp_path):
  with pytest.raises(UserError, match=r"holds no dataset_info\.json"):
    tfds_builder.Source(tmp_path, "train")
  with pytest.raises(UserError, match=r"holds no dataset_info\.json"):
    corpora.read("built", tmp_path)


def test_no_tensorflow_is_loaded(tmp_path):
  program = """
    import runpy, sys
    sys.argv = ["build_dataset", f"--out={sys.argv[1]}"]
    try:
      runpy.run_module("asc_jax.tools.build_dataset", run_name="__main__")
    except SystemExit as e:
      print("exit", e.code)
    print("tensorflow" in sys.modules)
  """
  done = subprocess.run(
    [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
    capture_output=True,
    text=True,
    check=True,
  )
  assert "quickstart/1.0.0: train 25, checker_a 4, eval 11" in done.stdout
  assert done.stdout.split()[-1] == "False"

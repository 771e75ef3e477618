"""The notebook runs on the records of an evaluation, and what it counts is what a loop counts."""

import json
import pathlib
import random

import pytest
import synthetic_records as synthetic

from asc_jax.evaluation import records

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBE = "import json\njson.dump({k: v.tolist() for k, v in counts.items()}, open(PATH, 'w'))"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
  """The rows that it read, what it counted, and its cells after the run."""
  nbformat = pytest.importorskip("nbformat")
  nbclient = pytest.importorskip("nbclient")
  folder = tmp_path_factory.mktemp("run")
  base = []
  for run, step in (("base", 0), ("mine", 4), ("mine", 8)):
    for corpus in ("asqa", "clapnq"):
      rng = random.Random(step)
      rows = synthetic.realistic(rng, 12, run=run, step=step, corpus=corpus)
      records.append(folder / f"records/{corpus}/{run}_{step:06d}.jsonl", rows)
      base += rows if run == "base" else []
  notebook = nbformat.read(ROOT / "notebooks/analysis.ipynb", as_version=4)
  assert not any(cell.get("outputs") for cell in notebook.cells), "kept without output"
  probe = PROBE.replace("PATH", repr(str(folder / "seen.json")))
  notebook.cells.append(nbformat.v4.new_code_cell(probe))
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("ASC_JAX_RUN", str(folder))
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
  return base, json.loads((folder / "seen.json").read_text()), notebook.cells


def test_it_counts_every_sentence(executed):
  rows, counts, _ = executed
  for kind, found in counts.items():
    wanted = [0] * 10
    for row in rows:
      for s in row["sentences"]:
        if s["copied"] == (kind == "copied"):
          wanted[min(int(s["scores"]["minilm"]["supported"] * 10 + 1e-9), 9)] += 1
    assert found == wanted and sum(wanted) > 10


def test_it_shows_every_figure(executed):
  outputs = [output for cell in executed[2] for output in cell.get("outputs", ())]
  assert sum("image/png" in output.get("data", {}) for output in outputs) == 5
  printed = "".join(o.get("text", "") for o in outputs)
  assert "methods: ['asc']" in printed and "asc mean Err [minilm]: " in printed

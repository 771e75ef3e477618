"""The command that fits the embedded checker's heads."""

import csv
import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from tiny_checkpoints import labelled_pairs

from asc_jax.checkers import encoder, minilm
from asc_jax.config import default_config
from asc_jax.tools import train_checker
from asc_jax.types import UserError


class Letters:
  """Stands for the encoder: a word piece is a letter, its vector tells the letter."""

  def __call__(self, texts):
    return [
      encoder.Pieces(
        np.array([2000 + ord(c) % 900 for c in text], np.int32),
        np.array([[i, i + 1] for i in range(len(text))], np.int32),
        np.eye(64, dtype=np.float32)[[ord(c) % 64 for c in text]],
      )
      for text in texts
    ]


def test_the_command_fits_both_heads(tmp_path, monkeypatch, capsys):
  for name in ("begin", "factcheck_gpt"):
    (tmp_path / name).mkdir()
  with (
    open(tmp_path / "begin/rows.tsv", "w", newline="") as table,
    open(tmp_path / "factcheck_gpt/rows.jsonl", "w") as lines,
  ):
    writer = csv.writer(table, delimiter="\t")
    writer.writerow(["knowledge", "response", "begin_label"])
    for i in range(20):
      text, right, wrong = f"Mill {i} shut.", f"It was mill {i}.", f"It was mill {i + 40}."
      writer.writerow([text, right, "Fully attributable"])
      writer.writerow([text, wrong, "Not attributable"])
      for claim, stance in ((right, "completely-support"), (wrong, "refute")):
        row = {"claim": f"{claim[:-1]} in {i}.", "evidence": text, "stance": stance}
        lines.write(json.dumps(row) + "\n")
  monkeypatch.setattr(train_checker.encoder, "find_weights", lambda path: path)
  monkeypatch.setattr(train_checker.encoder, "Encoder", lambda folder: Letters())
  config = default_config(train_checker.FIELDS)
  config.update({"out": str(tmp_path), "data": {"path": str(tmp_path)}})
  train_checker.main(config)
  first = capsys.readouterr().out
  assert "rank correlation of the twins' scores: factcheck_gpt" in first
  written = [(tmp_path / f"minilm_{h}.json").read_text() for h in "ab"]
  heads = [minilm.Head.from_json(text) for text in written]
  assert not np.allclose(heads[0].weight, heads[1].weight)
  with pytest.raises(UserError, match="fitted on other features"):
    minilm.Head.from_json(written[0].replace("cosine", "sine"))

  for name in ("begin", "factcheck_gpt"):
    line = next(line for line in first.splitlines() if line.startswith(f"| {name} "))
    rows = json.loads((tmp_path / "left_out_a/scores.json").read_text())["scores"][name]
    _, labels, scores = zip(*rows, strict=True)
    assert line.split(" | ")[5] == f"{roc_auc_score(labels, scores):.3f}"

  train_checker.main(config)
  at = "\nhead a"  # what is before it has seconds in it
  again = capsys.readouterr().out
  assert again[again.index(at) :] == first[first.index(at) :]
  assert [(tmp_path / f"minilm_{h}.json").read_text() for h in "ab"] == written


def test_one_set_is_left_out_of_nothing_and_one_label_is_refused(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(train_checker.encoder, "find_weights", lambda path: path)
  monkeypatch.setattr(train_checker.encoder, "Encoder", lambda folder: Letters())
  config = default_config(train_checker.FIELDS)
  config.data.path = str(tmp_path)
  labelled_pairs(tmp_path, "Mill {} closed.", "It {}.")
  train_checker.main(config)
  printed = capsys.readouterr().out
  line = next(row for row in printed.splitlines() if row.startswith("| begin "))
  assert line.split(" | ")[5] == "0.500" and "written" not in printed
  table = tmp_path / "begin/rows.tsv"
  table.write_text(table.read_text().replace("Not attributable", "Fully attributable"))
  with pytest.raises(UserError, match="no pairs of both labels in the split checker_a"):
    train_checker.main(config)

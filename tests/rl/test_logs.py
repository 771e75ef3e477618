"""What TensorBoard and Weights & Biases are given."""

import sys
import types

import numpy as np
import pytest

from asc_jax.rl import logs


def test_histograms_and_texts_are_read_back(tmp_path):
  accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
  writer = logs.MetricsWriter(tmp_path)
  writer.write(1, {"reward/R": 0.5})
  writer.histogram(1, "advantage/sentence", np.array([-1.0, -1.0, 2.0]))
  writer.histogram(1, "nothing", np.array([]))
  writer.text(1, "answer", "**Who?**\n\nAnn.")
  writer.close()
  reader = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
  reader.Reload()
  assert reader.Tags()["histograms"] == ["advantage/sentence"]
  [event] = reader.Histograms("advantage/sentence")
  found = event.histogram_value
  assert (event.step, found.num, found.min, found.max, found.sum) == (1, 3, -1, 2, 0)
  [tag] = [tag for tag in reader.Tags()["tensors"] if tag.startswith("answer")]
  [text] = reader.Tensors(tag)
  assert text.tensor_proto.string_val == [b"**Who?**\n\nAnn."]


def test_weights_and_biases_gets_the_scalars_of_one_run_a_folder(tmp_path, monkeypatch):
  calls = []
  run = types.SimpleNamespace(
    log=lambda metrics, step: calls.append((step, metrics)), finish=lambda: calls.append("end")
  )

  def init(**settings):
    calls.append(settings)
    return run

  monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
  for step in (1, 2):
    writer = logs.MetricsWriter(tmp_path, step - 1, project="asc")
    writer.write(step, {"loss/total": 0.25})
    writer.close()
  first, second = calls[0], calls[3]
  assert first == second and first["project"] == "asc" and first["resume"] == "allow"
  assert calls[1:3] == [(1, {"loss/total": 0.25}), "end"]

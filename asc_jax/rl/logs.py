"""What a run writes down: metrics.jsonl, TensorBoard, and where the time went."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import pathlib
import time
import types
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from tensorboardX import SummaryWriter


class Host(NamedTuple):
  """What the host sees of a step's batch.

  Attributes:
    scalars: go to metrics.jsonl and TensorBoard.
    tokens: answer tokens, for the tokens a second.
    texts: Markdown by name, for TensorBoard.
  """

  scalars: dict[str, float]
  tokens: int
  texts: Mapping[str, str] = types.MappingProxyType({})


class MetricsWriter:
  """One JSON line and one TensorBoard point a step; Weights & Biases where asked.

  A resumed run cuts the first two back to its checkpoint's step, so that no step
  appears twice in either; the third keeps the first value that a step was given.

  Args:
    workdir: metrics.jsonl and the event files lie here.
    restored_step: the last step that the checkpoint holds; None starts anew.
    project: of Weights & Biases; None logs nothing there.
  """

  def __init__(
    self, workdir: pathlib.Path, restored_step: int | None = None, project: str | None = None
  ):
    self.path = workdir / "metrics.jsonl"
    _cut_back(self.path, -1 if restored_step is None else restored_step)
    self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
    purge = None if restored_step is None else restored_step + 1
    self._board = SummaryWriter(str(workdir / "tensorboard"), purge_step=purge)
    self._wandb = None
    if project is not None:
      import wandb

      # The same folder goes on with the same run.
      name = hashlib.sha256(str(workdir.absolute()).encode()).hexdigest()[:16]
      self._wandb = wandb.init(
        project=project, id=name, name=workdir.name, dir=str(workdir), resume="allow"
      )

  def write(self, step: int, metrics: Mapping[str, float]) -> None:
    self._file.write(json.dumps({"step": step, **metrics}) + "\n")
    self._file.flush()
    for name, value in metrics.items():
      self._board.add_scalar(name, value, step)
    self._board.flush()  # a killed run keeps the points that its metrics.jsonl has
    if self._wandb is not None:
      self._wandb.log(dict(metrics), step=step)

  def histogram(self, step: int, name: str, values: np.ndarray) -> None:
    """The distribution of a step's values, in TensorBoard only."""
    if values.size:
      self._board.add_histogram(name, values, step)

  def text(self, step: int, name: str, markdown: str) -> None:
    """A sample to read, in TensorBoard only."""
    self._board.add_text(name, markdown, step)

  def close(self) -> None:
    if self._wandb is not None:
      self._wandb.finish()
    self._file.close()
    self._board.close()


def read_metrics(path: pathlib.Path) -> list[dict[str, float]]:
  """The steps of a metrics.jsonl; a line that is no step (cut off by a crash) is left out."""
  rows = []
  for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
    with contextlib.suppress(json.JSONDecodeError):
      row = json.loads(line)
      if isinstance(row, dict) and isinstance(row.get("step"), int):
        rows.append(row)
  return rows


def _cut_back(path: pathlib.Path, last: int) -> None:
  if path.exists():
    kept = [row for row in read_metrics(path) if row["step"] <= last]
    partial = path.with_suffix(".tmp")
    partial.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    os.replace(partial, path)


class Clock:
  """Adds up wall-clock seconds by name."""

  def __init__(self):
    self.seconds: dict[str, float] = collections.defaultdict(float)

  @contextlib.contextmanager
  def __call__(self, name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
      yield
    finally:
      self.seconds[name] += time.perf_counter() - start

  def table(self) -> str:
    """`name  seconds  share`, the largest first."""
    total = sum(self.seconds.values()) or 1.0
    rows = sorted(self.seconds.items(), key=lambda row: -row[1])
    width = max(map(len, self.seconds), default=0)
    return "\n".join(f"  {n:<{width}} {s:8.1f} s {100 * s / total:5.1f} %" for n, s in rows)


def postfix(values: Mapping[str, float]) -> str:
  """The progress bar's figures."""
  names = {
    "R": "reward/R",
    "credit": "reward/credit",
    "Copy": "text/copy",
    "Words": "text/words",
    "KL": "loss/kl",
    "nll": "loss/nll",
    "correct": "corver/correct",
    "format": "corver/formatted",
    "sentence": "corver/sentence_reward",
    "tok/s": "time/tokens_per_second",
  }
  return " ".join(f"{k} {values[v]:.3g}" for k, v in names.items() if v in values)

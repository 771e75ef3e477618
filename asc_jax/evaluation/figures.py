"""How every figure looks, the bars they share, and the curves of a run.

Series differ in marker, line or hatch as well as in colour. The same data give the
same bytes.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#1f5fa8", "#c4501b", "#2a7d4f", "#7a4fa3", "#8a6d00", "#b0305c", "#4a4f57")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
STYLE: Any = {
  "font.size": 10,
  "axes.spines.top": False,
  "axes.spines.right": False,
  "axes.grid": True,
  "grid.color": "#e4e4e4",
  "axes.axisbelow": True,
  "axes.titlesize": 10,
  "axes.titleweight": "bold",
  "legend.frameon": False,
  "svg.hashsalt": "asc_jax",
  "svg.fonttype": "none",
}
CURVES = {  # metrics.jsonl name: title, factor
  "reward/R": ("R, %", 100),
  "reward/credit": ("credit a sentence, %", 100),
  "text/copy": ("Copy, %", 100),
  "text/words": ("Words an answer", 1),
  "text/refusals": ("Ref, %", 100),
  "loss/kl": ("KL to the reference", 1),
}


def save(figure: Figure, stem: pathlib.Path) -> list[pathlib.Path]:
  """Writes stem.png and stem.svg."""
  paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
  with matplotlib.rc_context(STYLE):
    figure.savefig(paths[0], dpi=160, metadata={"Software": None})
    figure.savefig(paths[1], metadata={"Date": None})
  return paths


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, np.ndarray]:
  """A figure of this size in inches and its axes, [rows, columns]."""
  figure = Figure(figsize=size, layout="constrained")
  return figure, figure.subplots(rows, columns, squeeze=False)


def _series(rows: Sequence[Mapping[str, float]], name: str) -> tuple[np.ndarray, np.ndarray]:
  """Steps and values of one metric; steps without it, or not finite, are left out."""
  found = [(row["step"], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
  steps, values = zip(*found, strict=True) if found else ((), ())
  return np.array(steps, float), np.array(values, float)


def _smooth(values: np.ndarray, window: int) -> np.ndarray:
  """Centred moving mean, over fewer values at the ends."""
  ones = np.ones(window)
  return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")


def curves(
  runs: Mapping[str, Sequence[Mapping[str, float]]],
  shown: Mapping[str, tuple[str, float]] = CURVES,
) -> Figure:
  """Metrics over the steps of each run, one panel each, in two rows (Figures 3, 6 and 7).

  From 20 steps on, the measured values are pale and a moving mean is drawn over them.

  Args:
    runs: by label, a mapping a step: "step" and the metrics.
    shown: the metrics' names in the rows, their titles and what they are multiplied by.
  """
  with matplotlib.rc_context(STYLE):
    columns = (len(shown) + 1) // 2
    figure, axes = panels(2, columns, (3.5 * columns, 5.6))
    for axis, (name, (title, factor)) in zip(axes.flat, shown.items(), strict=False):
      axis.set_title(title, loc="left")
      axis.set_xlabel("step")
      axis.xaxis.get_major_locator().set_params(integer=True)
      for place, (label, rows) in enumerate(runs.items()):
        steps, values = _series(rows, name)
        values = factor * values
        look = {"color": COLOURS[place % 7], "linestyle": LINES[place % 4]}
        if len(steps) >= 20:
          axis.plot(steps, values, color=look["color"], alpha=0.25, linewidth=0.8)
          values = _smooth(values, max(3, len(steps) // 15))
          axis.plot(steps, values, label=label, linewidth=1.8, **look)
        else:
          axis.plot(steps, values, label=label, marker=MARKERS[place % 7], markersize=4, **look)
      if not axis.lines or all(not len(line.get_xdata()) for line in axis.lines):
        axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color="#666666")
    for axis in axes.flat[len(shown) :]:
      axis.set_axis_off()
    if len(runs) > 1:
      handles, labels = axes.flat[0].get_legend_handles_labels()
      figure.legend(handles, labels, loc="outside lower center", ncols=min(len(runs), 4))
    return figure


def bars(axis: Axes, groups: Sequence[str], series: Mapping[str, Sequence]) -> None:
  """Grouped bars with their values on top; None leaves a –; (value, low, high) draws a whisker."""
  width = 0.8 / len(series)
  size = 8 if len(series) <= 4 else 6
  for place, (label, entries) in enumerate(series.items()):
    spots = np.arange(len(groups)) + (place - (len(series) - 1) / 2) * width
    triples = [e if isinstance(e, tuple) else (e, None, None) for e in entries]
    heights = [0.0 if value is None else value for value, _, _ in triples]
    axis.bar(
      spots,
      heights,
      width * 0.92,
      label=label,
      color=COLOURS[place % 7],
      hatch=HATCHES[place % 7],
      edgecolor="white",
    )
    for spot, (value, low, high) in zip(spots, triples, strict=True):
      top = value or 0.0
      if value is not None and low is not None:
        axis.errorbar(spot, value, [[value - low], [high - value]], color="#222222", capsize=3)
        top = high
      text = "–" if value is None else f"{value:.1f}"
      axis.annotate(text, (spot, top), (0, 2), textcoords="offset points", ha="center", size=size)
  axis.set_xticks(np.arange(len(groups)), groups)
  axis.grid(axis="x", visible=False)
  axis.margins(y=0.15)

"""CorVer's figures: calibration, popularity, and what became of the base model's answers."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from asc_jax.corver import analyses
from asc_jax.evaluation import corver_paper, figures

CAPTIONS = {
  "figure_3": "Figure 3. How often an answer is correct, by the count of its sentences.",
  "figure_4": "Figure 4. Accuracy by the popularity of the question's subject.",
  "figure_5": "Figure 5. What became of the base model's answers.",
}


def figure_3(found: Sequence[corver_paper.Run]) -> Figure:
  """P(correct | count bucket), with the jumps between neighbours."""
  rows = [bucket for bucket in corver_paper.buckets(found) if bucket.total]
  with matplotlib.rc_context(figures.STYLE):
    figure, axes = figures.panels(1, 1, (6.5, 4))
    axis = axes[0, 0]
    names = [f"{bucket.label}\n{bucket.total:,} sentences" for bucket in rows]
    heights = [100 * (bucket.precision or 0.0) for bucket in rows]
    figures.bars(axis, names, {"correct": heights})
    for place, bucket in enumerate(rows):
      if bucket.jump is not None:
        axis.annotate(
          f"{100 * bucket.jump:+.1f}", (place, 0), (0, 4), textcoords="offset points", ha="center"
        )
    axis.set_xlabel("count in the corpus")
    axis.set_ylabel("correct answers, %")
    return figure


def figure_4(found: Sequence[corver_paper.Run]) -> Figure | None:
  """Accuracy in four equal parts of the questions, from the least popular up (PopQA)."""
  names = corver_paper.labels(found)
  series: dict[str, list[float | None]] = {}
  groups: list[str] = []
  entries = [(f"{m}, base", rows) for m, rows in corver_paper.bases(found).items()]
  entries += [(names[run.name], run.after) for run in found]
  for label, corpora in entries:
    rows = [r for own in corpora.values() for r in own if r["popularity"] is not None]
    if rows:
      quartiles = analyses.popularity_quartiles(
        [r["popularity"] or 0 for r in rows], [r["outcome"] == "correct" for r in rows]
      )
      series[label] = [None if q.precision is None else 100 * q.precision for q in quartiles]
      groups = groups or [q.label for q in quartiles]
  if not series:
    return None
  with matplotlib.rc_context(figures.STYLE):
    figure, axes = figures.panels(1, 1, (7, 4))
    figures.bars(axes[0, 0], groups, series)
    axes[0, 0].set_xlabel("popularity of the subject")
    axes[0, 0].set_ylabel("correct answers, %")
    figure.legend(loc="outside lower center", ncols=min(len(series), 4))
    return figure


def figure_5(found: Sequence[corver_paper.Run]) -> Figure | None:
  """Shares of questions whose outcome changed, from the base model to each run."""
  moves = corver_paper.moves(found)
  if not moves:
    return None
  changes = [(a, b) for a in corver_paper.OUTCOMES for b in corver_paper.OUTCOMES if a != b]
  changes.sort(key=lambda pair: pair != ("refused", "correct"))
  series = {label: [own.get(pair, 0.0) for pair in changes] for label, own in moves.items()}
  with matplotlib.rc_context(figures.STYLE):
    figure, axes = figures.panels(1, 1, (9, 4))
    figures.bars(axes[0, 0], [f"{a}\nto {b}" for a, b in changes], series)
    axes[0, 0].set_ylabel("questions, %")
    figure.legend(loc="outside lower center", ncols=min(len(series), 4))
    return figure


def make(found: Sequence[corver_paper.Run]) -> dict[str, Figure]:
  """The figures that these runs can fill, by file name."""
  made = {"figure_3": figure_3(found), "figure_4": figure_4(found), "figure_5": figure_5(found)}
  return {name: figure for name, figure in made.items() if figure is not None}

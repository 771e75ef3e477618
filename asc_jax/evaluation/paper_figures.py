"""The paper's Figures 1, 2, 3, 5 and 8 from records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asc_jax.evaluation import bootstrap, figures, metrics, pairwise, paper
from asc_jax.evaluation.figures import COLOURS, MARKERS, STYLE, bars, panels
from asc_jax.evaluation.runs import Run, Setting, by_corpus


def _shares(rows, instrument: str) -> list[tuple[float | None, float | None, float | None]]:
  """Unsupported share of authored and of copied sentences, with intervals from 50 questions on."""
  table = metrics.origin(instrument)
  _, sums = metrics.question_sums(rows, table)
  points = metrics.values(sums.sum(axis=0), table)
  limits: list = [(None, None)] * 2
  if len(sums) >= bootstrap.MIN_QUESTIONS:
    drawn = metrics.values(bootstrap.resampled(sums, resamples=10_000, seed=0), table)
    limits = [bootstrap.interval(drawn[:, i]) for i in range(2)]
  return [
    (None if math.isnan(point) else float(point), *limit)
    for point, limit in zip(points, limits, strict=True)
  ]


def _ratio(authored, copied) -> str:
  """How many times as often authored sentences are unsupported."""
  if authored[0] is None or not copied[0]:
    return "–"
  return f"{authored[0] / copied[0]:.1f} times"


def _mean(setting: Setting, table) -> metrics.Summary:
  return metrics.macro_mean([metrics.summarise(rows, table) for rows in setting.records.values()])


def figure_1(base: Setting, settings: Sequence[Setting]) -> Figure:
  """(a) Copying is the cheap way to be supported; (b) what each training bought with it."""
  reward = base.all()[0]["reward_instrument"]
  with matplotlib.rc_context(STYLE):
    figure, axes = panels(1, 2, (11, 4.2))
    left, right = axes[0]
    shares = [_shares(rows, reward) for rows in base.records.values()]
    series = {"authored": [s[0] for s in shares], "copied": [s[1] for s in shares]}
    bars(left, [f"{c}\n{_ratio(*s)}" for c, s in zip(base.records, shares, strict=True)], series)
    left.set_title(f"(a) sentences that {reward} finds unsupported, base, %", loc="left")
    left.legend()
    known = paper.measured_by(None if reward == metrics.BESPOKE else reward)
    wanted = [known[name] for name in ("R", "Copy", "Vac", "Ref")]
    bought = {}
    for setting in (base, *settings):
      summary = _mean(setting, wanted)
      bought[setting.label] = [summary.values[column.name] for column in wanted]
    bars(right, [column.name for column in wanted], bought)
    right.set_title("(b) after training, mean over corpora, %", loc="left")
    right.legend()
    return figure


def figure_2(base: Setting) -> Figure:
  """Unsupported share of base's authored and copied sentences by instrument, and people's view."""
  rows = base.all()
  names = list(dict.fromkeys(name for record in rows for name in record["instruments"]))
  shares = [_shares(rows, name) for name in names]
  studies = {"human labels\n(paper)": paper.HUMAN_STUDY}
  with matplotlib.rc_context(STYLE):
    figure, axes = panels(1, 1, (1.6 * (len(names) + len(studies)) + 3, 4))
    series = {
      kind: [*(s[i] for s in shares), *(float(study[i]) for study in studies.values())]
      for i, kind in enumerate(("authored", "copied"))
    }
    bars(axes[0, 0], [*names, *studies], series)
    axes[0, 0].set_title("sentences in error or unsupported, %", loc="left")
    axes[0, 0].legend()
    return figure


def figure_3(base: Setting, runs: Sequence[Run], instrument: str | None = None) -> Figure | None:
  """Evaluated metrics over training, means over corpora; None where nothing was trained.

  Each run starts from the base model's answers.
  """
  known = paper.measured_by(instrument)
  wanted = [known[name] for name in ("R", "Err", "Supp", "Copy", "Words", "Vac", "Ref", "EM")]
  lines = {}
  for run in runs:
    if steps := sorted({record["step"] for record in run.records} - {0}):
      settings = [Setting(run.name, by_corpus(run.records, step)) for step in steps]
      lines[run.name] = [
        {"step": step, **_measured(setting, wanted)}
        for step, setting in zip([0, *steps], [base, *settings], strict=True)
      ]
  shown = {c.name: (c.name + (", %" if c.percent else ""), 1.0) for c in wanted}
  return figures.curves(lines, shown) if lines else None


def _measured(setting: Setting, table) -> dict[str, float]:
  """The means over corpora, without those that are not known."""
  values = _mean(setting, table).values
  return {name: value for name, value in values.items() if value is not None}


def figure_5(base: Setting, settings: Sequence[Setting], instrument: str | None = None) -> Figure:
  """Err and Supp on each corpus: from base (open circle) to each method (filled mark)."""
  known = paper.measured_by(instrument)
  with matplotlib.rc_context(STYLE):
    height = 1.4 + 0.35 * len(base.records) * max(1, len(settings))
    figure, axes = panels(1, 2, (10.5, height))
    for axis, column in zip(axes[0], (known["Err"], known["Supp"]), strict=True):
      axis.set_title(column.name + (", %" if column.percent else " an answer"), loc="left")
      for row, corpus in enumerate(base.records):
        for place, setting in enumerate(settings):
          spot = row + 0.6 * ((place + 0.5) / len(settings) - 0.5)
          _arrow(axis, base.records[corpus], setting.records[corpus], column, spot, place)
      axis.set_yticks(range(len(base.records)), list(base.records))
      axis.set_ylim(len(base.records) - 0.5, -0.5)
      axis.margins(x=0.1)
      if not axis.lines:
        axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color="#666666")
    _legend(figure, axes[0, 0], [setting.label for setting in settings])
    return figure


def _arrow(axis: Axes, before, after, column: metrics.Column, height: float, place: int) -> None:
  """From the value of `before` to that of `after`; nothing where one was not measured."""
  start, end = (metrics.summarise(rows, [column]).values[column.name] for rows in (before, after))
  if start is None or end is None:
    return
  shaft = {"arrowstyle": "->", "color": "#888888"}
  axis.annotate("", (end, height), (start, height), arrowprops=shaft)
  axis.plot(start, height, "o", markerfacecolor="white", color="#333333", zorder=3)
  axis.plot(end, height, MARKERS[place % 7], color=COLOURS[place % 7], zorder=3)


def _legend(figure: Figure, axis: Axes, labels: Sequence[str]) -> None:
  """One entry a label, in the order in which colours and markers are dealt."""
  handles = [
    axis.plot([], [], MARKERS[i % 7], color=COLOURS[i % 7], label=label)[0]
    for i, label in enumerate(labels)
  ]
  if handles:
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))


def figure_8(
  base: Setting,
  settings: Sequence[Setting],
  judgements: Sequence[pairwise.Judgement],
) -> Figure:
  """Does the reward's gain, or Supp's, tell which method's answers a judge prefers?

  Supp is the sentence judge's where it was run, else the reward instrument's. A
  judgement belongs to the setting whose label is its `a`.
  """
  instruments = base.all()[0]["instruments"]
  reward = base.all()[0]["reward_instrument"]
  known = paper.measured_by(None if reward == metrics.BESPOKE else reward)
  supp = next(c for c in metrics.EXTRA if c.kind == "supported_count")
  wanted = [known["R"], supp if supp.instrument in instruments else known["Supp"]]
  start = _mean(base, wanted)
  contests = [j for j in judgements if j["task"] == "win"]
  judges = list(dict.fromkeys(j["judge"] for j in contests))
  with matplotlib.rc_context(STYLE):
    figure, axes = panels(1, 2, (10, 4.2))
    for axis, column in zip(axes[0], wanted, strict=True):
      axis.axhline(50, color="#999999", linewidth=1)
      axis.set_xlabel(f"change in {column.name}" + (", points" if column.percent else ""))
      axis.set_ylabel("win rate against base, %")
      gains = {}
      for setting in settings:
        before, after = start.values[column.name], _mean(setting, wanted).values[column.name]
        if before is not None and after is not None:
          gains[setting.label] = after - before
      # Judges stand side by side where they would hide each other.
      step = 0.015 * (max(gains.values(), default=0) - min(gains.values(), default=0) or 1)
      for label, gain in gains.items():
        rates = {}
        for place, judge in enumerate(judges):
          if pairs := [j for j in contests if j["judge"] == judge and j["a"] == label]:
            rates[place] = pairwise.win_rate(pairs)
            _point(axis, gain + step * (place - (len(judges) - 1) / 2), rates[place], place)
        if rates:
          middle = float(np.mean([rate.rate for rate in rates.values()]))
          axis.annotate(label, (gain, middle), (10, 4), textcoords="offset points", size=8)
      axis.margins(0.15)
      axis.locator_params(axis="x", nbins=6)  # long numbers of a narrow range stay apart
    _legend(figure, axes[0, 0], judges)
    return figure


def _point(axis: Axes, gain: float, rate: pairwise.Rate, place: int) -> None:
  error = None
  if rate.low is not None and rate.high is not None:
    error = [[rate.rate - rate.low], [rate.high - rate.rate]]
  axis.errorbar(gain, rate.rate, error, fmt=MARKERS[place % 7], color=COLOURS[place % 7], capsize=3)

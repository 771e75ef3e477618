"""Figures hold the numbers of the records, and the same data give the same bytes."""

import numpy as np
import pytest
from test_tables import AUTHOR, BASE, COPIER, judged

from asc_jax.evaluation import figures, metrics, paper_figures
from asc_jax.evaluation.runs import Run

CURVES = [
  {
    "step": i,
    "reward/R": 0.5 + i / 100,
    "reward/credit": 0.2,
    "text/copy": 0.3,
    "text/words": 40 - i,
  }
  for i in range(1, 6)
]


def texts(figure):
  return [t.get_text() for axis in figure.axes for t in axis.texts]


def heights(axis):
  return [round(bar.get_height(), 6) for bar in axis.patches]


def test_curves_draw_every_logged_value_in_percent():
  figure = figures.curves({"asc": CURVES, "grpo": CURVES[:3]})
  drawn = {axis.get_title(loc="left"): axis for axis in figure.axes}
  first, second = drawn["R, %"].lines
  assert first.get_ydata() == pytest.approx([51, 52, 53, 54, 55])
  assert list(second.get_xdata()) == [1, 2, 3]
  assert drawn["Words an answer"].lines[0].get_ydata() == pytest.approx([39, 38, 37, 36, 35])
  assert [t.get_text() for t in drawn["KL to the reference"].texts] == ["not measured"]
  assert first.get_linestyle() != second.get_linestyle()


def test_long_curves_are_smoothed_without_moving_their_mean():
  rng = np.random.default_rng(0)
  rows = [{"step": i, "reward/R": float(v)} for i, v in enumerate(rng.normal(0.5, 0.1, 60))]
  rows[10]["reward/R"] = float("nan")
  raw, smooth = figures.curves({"asc": rows}).axes[0].lines
  assert len(raw.get_xdata()) == len(smooth.get_xdata()) == 59
  assert smooth.get_ydata().mean() == pytest.approx(raw.get_ydata().mean(), abs=0.5)
  assert smooth.get_ydata().std() < 0.7 * raw.get_ydata().std()
  middle = raw.get_ydata()[21:24].mean()  # 59 values: a window of three
  assert smooth.get_ydata()[22] == pytest.approx(middle)


def test_figure_1_shows_both_origins_and_what_training_bought():
  figure = paper_figures.figure_1(BASE, [COPIER, AUTHOR])
  left, right = figure.axes
  rows = BASE.records["asqa"]
  flat = [s for row in rows for s in row["sentences"]]

  def share(copied):
    of = [s["scores"]["minilm"]["supported"] <= 0.5 for s in flat if s["copied"] == copied]
    return 100 * sum(of) / len(of)

  assert heights(left)[0] == pytest.approx(share(False)) and heights(left)[2] == pytest.approx(
    share(True)
  )
  assert f"{share(False) / share(True):.1f} times" in left.get_xticklabels()[0].get_text()
  assert [t.get_text() for t in right.get_legend().get_texts()] == ["base", "grpo", "asc"]


def test_figure_2_sets_people_beside_the_instruments():
  axis = paper_figures.figure_2(BASE).axes[0]
  assert [t.get_text() for t in axis.get_xticklabels()] == [
    "minilm",
    "lexical",
    "human labels\n(paper)",
  ]
  assert {12.2, 1.9} <= set(heights(axis))


def test_figure_3_starts_every_run_from_base():
  rows = [{**row, "run": "grpo", "step": 20} for row in COPIER.all()]
  late = [{**row, "run": "grpo", "step": 40} for row in AUTHOR.all()]
  figure = paper_figures.figure_3(BASE, [Run("grpo", rows + late, [])], "minilm")
  drawn = {axis.get_title(loc="left"): axis for axis in figure.axes}
  line = drawn["Copy, %"].lines[0]
  values = [
    np.mean([metrics.summarise(rows).values["Copy"] for rows in s.records.values()])
    for s in (BASE, COPIER, AUTHOR)
  ]
  assert list(line.get_xdata()) == [0, 20, 40]
  assert line.get_ydata() == pytest.approx(values)
  assert drawn["Supp [minilm]"].lines[0].get_ydata().size == 3
  assert texts(paper_figures.figure_3(BASE, [Run("grpo", rows, [])])).count("not measured") == 4
  assert paper_figures.figure_3(BASE, [Run("base", BASE.all(), [])], "minilm") is None


def test_figure_5_goes_from_base_to_each_method():
  figure = paper_figures.figure_5(BASE, [COPIER, AUTHOR], "minilm")
  errors = figure.axes[0]
  base, grpo = (line.get_xdata()[0] for line in errors.lines[:2])
  values = [metrics.summarise(s.records["asqa"]).values["Err [minilm]"] for s in (BASE, COPIER)]
  assert [base, grpo] == pytest.approx(values)
  empty = paper_figures.figure_5(BASE, [COPIER])
  assert texts(empty) == ["not measured", "not measured"]


def test_figure_8_sets_gain_against_win_rate():
  pairs = judged("win", "a", 45) + judged("win", "b", 15)
  pairs = [{**p, "id": str(i)} for i, p in enumerate(pairs)]
  figure = paper_figures.figure_8(BASE, [COPIER, AUTHOR], pairs)
  point = next(
    line for line in figure.axes[0].lines if line.get_marker() == "o" and len(line.get_xdata())
  )
  gains = [
    np.mean([metrics.summarise(rows).values["R [minilm]"] for rows in s.records.values()])
    for s in (BASE, AUTHOR)
  ]
  assert point.get_xdata()[0] == pytest.approx(gains[1] - gains[0])
  assert point.get_ydata()[0] == pytest.approx(75)
  assert texts(figure) == ["asc", "asc"]


def test_the_same_data_give_the_same_bytes(tmp_path):
  for stem in ("a", "b"):
    figures.save(figures.curves({"asc": CURVES}), tmp_path / stem)
    figures.save(paper_figures.figure_1(BASE, [COPIER]), tmp_path / f"{stem}_1")
  for suffix in (".png", ".svg", "_1.png", "_1.svg"):
    first = (tmp_path / f"a{suffix}").read_bytes()
    assert len(first) > 5000 and first == (tmp_path / f"b{suffix}").read_bytes()


def test_what_was_not_measured_is_a_dash_over_no_bar():
  axis = figures.panels(1, 1, (6, 4))[1][0, 0]
  figures.bars(axis, ["x", "y"], {f"run {i}": (1.5, None) for i in range(9)})
  assert texts(axis.figure) == ["1.5", "–"] * 9 and heights(axis) == [1.5, 0.0] * 9

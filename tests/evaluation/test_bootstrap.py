"""The bootstrap against scipy's, and the rules on when an interval is given."""

import random

import numpy as np
import pytest
import synthetic_records as synthetic
from scipy import stats

from asc_jax.evaluation import bootstrap, metrics
from asc_jax.types import UserError

BASE = synthetic.realistic(random.Random(1), 300, copying=0.5, group=2)
METHOD = synthetic.realistic(random.Random(2), 300, copying=0.2, group=2)
TABLE = [c for c in metrics.columns(BASE) if c.instrument in ("minilm", "")]
NAMES = ["Copy", "Words", "Err [minilm]", "Vac [minilm]", "Supp [minilm]", "R [minilm]"]


@pytest.mark.parametrize("name", NAMES)
def test_intervals_agree_with_scipy_to_a_tenth_of_a_point(name):
  (column,) = [c for c in TABLE if c.name == name]
  sums = [metrics.question_sums(rows, [column])[1][:, 0] for rows in (BASE, METHOD)]
  scale = 100 if column.percent else 1

  def change(a, b, c, d, axis=-1):
    return scale * (c.sum(axis) / d.sum(axis) - a.sum(axis) / b.sum(axis))

  theirs = stats.bootstrap(
    (*sums[0].T, *sums[1].T),
    change,
    paired=True,
    vectorized=True,
    n_resamples=20_000,
    method="percentile",
    rng=np.random.default_rng(5),
  ).confidence_interval
  ours = bootstrap.compare(BASE, METHOD, [column], resamples=20_000)["clapnq"][name]
  width = theirs.high - theirs.low
  tolerance = 0.1 if column.percent else 0.02 * width  # points; counts have none
  assert width > 10 * tolerance
  assert abs(ours.low - theirs.low) < tolerance
  assert abs(ours.high - theirs.high) < tolerance


def test_points_are_the_summaries_and_seeds_decide_the_draws():
  one = bootstrap.compare(BASE, METHOD, TABLE, seed=3, resamples=500)["clapnq"]
  assert one == bootstrap.compare(BASE, METHOD, TABLE, seed=3, resamples=500)["clapnq"]
  other = bootstrap.compare(BASE, METHOD, TABLE, seed=4, resamples=500)["clapnq"]
  assert one["Copy"].low != other["Copy"].low
  for rows, side in ((BASE, "base"), (METHOD, "method")):
    values = metrics.summarise(rows, TABLE).values
    assert {name: getattr(c, side) for name, c in one.items()} == pytest.approx(values)


def test_order_of_the_records_does_not_matter():
  rows = METHOD[:]
  random.Random(9).shuffle(rows)
  assert bootstrap.compare(BASE, rows, TABLE, resamples=300) == bootstrap.compare(
    BASE, METHOD, TABLE, resamples=300
  )


def test_every_draw_takes_as_many_questions_as_there_are():
  parts = list(bootstrap.draws(7, resamples=1234, seed=0))
  counts = np.concatenate(parts)
  assert counts.shape == (1234, 7) and (counts.sum(axis=1) == 7).all()
  assert counts.mean() == pytest.approx(1) and counts.var() == pytest.approx(6 / 7, abs=0.05)


def test_no_interval_below_fifty_questions():
  few = {r["id"] for r in BASE[:98]}
  base, method = ([r for r in rows if r["id"] in few] for rows in (BASE, METHOD))
  assert len(few) == 49
  change = bootstrap.compare(base, method, TABLE, resamples=300)["clapnq"]["Copy"]
  assert change.change < 0 and change.low is None and not change.significant
  change = bootstrap.compare(base, method, TABLE, resamples=300, min_questions=49)["clapnq"]["Copy"]
  assert change.high < 0 and change.significant


def test_mean_over_corpora_resamples_each_corpus():
  def both(copying):
    return [
      row
      for place, corpus in enumerate(("asqa", "eli5"))
      for row in synthetic.realistic(random.Random(place), 60, copying=copying, corpus=corpus)
    ]

  result = bootstrap.compare(both(0.5), both(0.1), metrics.columns(both(0.5)), resamples=2000)
  halves = [result[c]["Copy"].change for c in ("asqa", "eli5")]
  mean = result[bootstrap.MEAN]["Copy"]
  assert mean.change == pytest.approx(np.mean(halves))
  widths = [result[c]["Copy"].high - result[c]["Copy"].low for c in ("asqa", "eli5")]
  assert mean.high - mean.low == pytest.approx(np.hypot(*widths) / 2, rel=0.1)
  assert result[bootstrap.MEAN]["EM"].base == result["asqa"]["EM"].base
  assert result["eli5"]["EM"].base is None


def test_a_column_that_was_not_run_has_no_change():
  change = bootstrap.compare(BASE, METHOD, metrics.PAPER, resamples=200)["clapnq"]["Err"]
  assert change == (None, None, None, None) and change.change is None


def test_unequal_questions_are_refused_by_name():
  with pytest.raises(UserError, match="question clapnq-299 is in one set"):
    bootstrap.compare(BASE, METHOD[:-2], TABLE)
  other = synthetic.realistic(random.Random(1), 3, corpus="eli5")
  with pytest.raises(UserError, match="corpus eli5 is in one set"):
    bootstrap.compare(BASE, METHOD + other, TABLE)

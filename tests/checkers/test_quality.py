"""Quality measures against scikit-learn and a loop."""

import numpy as np
import pytest
from sklearn import metrics

from asc_jax.checkers import quality


@pytest.mark.parametrize("seed", range(4))
def test_auroc_and_balanced_accuracy_equal_sklearn(seed):
  rng = np.random.default_rng(seed)
  labels = rng.random(41) < 0.3
  scores = np.round(rng.random(41) + 0.3 * labels, 1).clip(0, 1)  # with ties
  assert quality.auroc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))
  for threshold in (0.5, 0.7):
    assert quality.balanced_accuracy(labels, scores, threshold) == pytest.approx(
      metrics.balanced_accuracy_score(labels, scores > threshold)
    )


def test_one_class_has_no_auroc():
  assert np.isnan(quality.auroc([True, True], [0.1, 0.9]))
  assert np.isnan(quality.balanced_accuracy([False, False], [0.1, 0.9]))


def test_calibration_equals_a_loop():
  rng = np.random.default_rng(5)
  scores = np.append(rng.random(60), [0.0, 1.0])
  labels = rng.random(62) < scores**2
  got = quality.calibration(labels, scores, bins=5)
  total = 0.0
  for i in range(5):
    inside = [j for j, s in enumerate(scores) if i / 5 <= s < (i + 1) / 5 or (i == 4 and s == 1)]
    predicted = np.mean([scores[j] for j in inside])
    observed = np.mean([labels[j] for j in inside])
    assert got.counts[i] == len(inside)
    assert got.predicted[i] == pytest.approx(predicted)
    assert got.observed[i] == pytest.approx(observed)
    total += len(inside) / 62 * abs(predicted - observed)
  assert got.error == pytest.approx(total)


def test_an_empty_bin_is_nan_and_counts_nothing():
  got = quality.calibration([True, False], [0.95, 0.95])
  assert np.isnan(got.observed[3]) and got.counts.sum() == 2
  assert got.error == pytest.approx(0.45)
  assert np.isnan(quality.calibration([], []).error)

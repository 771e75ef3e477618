"""How good an instrument is on labelled pairs: ranking, decisions, calibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata


def auroc(labels: np.ndarray, scores: np.ndarray) -> float:
  """P(a supported pair scores above an unsupported one), ties half; NaN for one class.

  >>> auroc([True, False, True, False], [0.9, 0.1, 0.4, 0.4])
  0.875
  """
  labels = np.asarray(labels, bool)
  positive, negative = labels.sum(), (~labels).sum()
  if not positive or not negative:
    return float("nan")
  ranks = rankdata(scores)[labels].sum()
  return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def balanced_accuracy(labels: np.ndarray, scores: np.ndarray, threshold: float = 0.5) -> float:
  """Mean of the shares right among supported and unsupported pairs; NaN for one class.

  >>> balanced_accuracy([True, True, False], [0.9, 0.2, 0.1])
  0.75
  """
  labels, said = np.asarray(labels, bool), np.asarray(scores) > threshold
  if labels.all() or not labels.any():
    return float("nan")
  return float((said[labels].mean() + (~said[~labels]).mean()) / 2)


class Calibration(NamedTuple):
  """Ten bins of equal width; empty bins hold NaN."""

  counts: np.ndarray  # int[10]
  predicted: np.ndarray  # float[10], mean score
  observed: np.ndarray  # float[10], share supported
  error: float  # ECE: mean |predicted - observed|, weighted by count; NaN of no score


def calibration(labels: np.ndarray, scores: np.ndarray, bins: int = 10) -> Calibration:
  """Whether a score of 0.7 means supported in seven cases of ten."""
  labels, scores = np.asarray(labels, float), np.asarray(scores, float)
  which = np.minimum((scores * bins).astype(int), bins - 1)
  counts = np.bincount(which, minlength=bins)
  shares = np.maximum(counts, 1)
  predicted, observed = (
    np.where(counts > 0, np.bincount(which, v, minlength=bins) / shares, np.nan)
    for v in (scores, labels)
  )
  error = np.nansum(np.abs(predicted - observed) * counts) / len(scores) if len(scores) else np.nan
  return Calibration(counts, predicted, observed, float(error))

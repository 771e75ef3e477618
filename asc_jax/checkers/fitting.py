"""What labelled pairs weigh, and the embedded checker's head: logistic regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from asc_jax.checkers.minilm import Head
from asc_jax.data.training_claims import Claim


def balance(sets: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Weights under which every set counts alike, and both labels alike in each.

  So a score of 0.5 is the neutral point whatever share of a set is supported.

  >>> balance(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 1, 0]))
  array([0.25, 0.25, 0.5 , 0.5 , 0.5 ])
  """
  weights = np.zeros(len(labels))
  for s in np.unique(sets):
    for label in np.unique(labels):
      here = (sets == s) & (labels == label)
      if here.any():
        weights[here] = 1 / (len(np.unique(labels[sets == s])) * here.sum())
  return weights


def claim_weights(documents: Mapping[str, Sequence[Claim]]) -> list[float]:
  """Weights of all claims in order, under which both labels count alike in each set.

  Those that were made are a set. A set counts by its size, unlike in `balance`: where every set
  counts alike, a few pairs of the small ones decide a batch, and its gradient is mostly noise.
  """
  every = [claim for own in documents.values() for claim in own]
  kinds, sizes = np.unique(
    [claim.kind for claim in every], return_inverse=True, return_counts=True
  )[1:]
  return (balance(kinds, np.array([claim.supported for claim in every])) * sizes[kinds]).tolist()


def fit_head(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, l2: float) -> Head:
  """Minimises the weighted mean cross-entropy + l2/2 x |weight|^2, in float64.

  Args:
    rows: [N, F] features.
    labels: bool[N].
    weights: [N], above 0.
    l2: strength of the penalty; the bias has none.
  """
  weights = weights / weights.sum()
  mean = weights @ rows
  scale = np.sqrt(weights @ (rows - mean) ** 2) + 1e-6
  z = np.clip((rows - mean) / scale, -4, 4).astype(np.float64)
  z = np.column_stack([z, np.ones(len(z))])  # the last column is the bias
  penalty = l2 * np.append(np.ones(rows.shape[1]), 0)
  solution = np.zeros(z.shape[1])
  for _ in range(100):
    p = 1 / (1 + np.exp(-z @ solution))
    gradient = z.T @ (weights * (p - labels)) + penalty * solution
    if np.abs(gradient).max() < 1e-10:
      break
    hessian = (z.T * (weights * p * (1 - p))) @ z + np.diag(penalty)
    solution -= np.linalg.solve(hessian, gradient)
  mean, scale, weight = (v.astype(np.float32) for v in (mean, scale, solution[:-1]))
  return Head(mean, scale, weight, float(solution[-1]))

"""Runs a compiled program over token lists of any length, in few fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def bucketed(
  sequences: Sequence[Sequence[int]],
  program: Callable[[np.ndarray, np.ndarray], np.ndarray],
  *,
  buckets: Sequence[int],
  tokens_per_batch: int,
) -> list[np.ndarray]:
  """`program`'s output for each sequence.

  Sequences of one bucket share batches of `tokens_per_batch // bucket` rows (at
  least one). A bucket has one shape, the last batch included, so it compiles once
  and a row's output does not depend on how many others there are.

  Args:
    sequences: token ids, none longer than the last bucket.
    program: (int32[rows, bucket] right-padded with 0, int32[rows]) -> [rows, ...].
    buckets: rising lengths.
    tokens_per_batch: what one call reads.
  """
  outputs: list[np.ndarray] = [np.zeros(0)] * len(sequences)
  waiting: dict[int, list[int]] = {bucket: [] for bucket in buckets}
  for i, ids in enumerate(sequences):
    waiting[next(b for b in buckets if len(ids) <= b)].append(i)
  for bucket, places in waiting.items():
    rows = max(tokens_per_batch // bucket, 1)
    for at in range(0, len(places), rows):
      tokens = np.zeros((rows, bucket), np.int32)
      lengths = np.zeros(rows, np.int32)
      for row, i in enumerate(places[at : at + rows]):
        lengths[row] = len(sequences[i])
        tokens[row, : lengths[row]] = sequences[i]
      output = np.asarray(program(tokens, lengths))
      for row, i in enumerate(places[at : at + rows]):
        outputs[i] = output[row]
  return outputs

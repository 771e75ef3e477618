"""The order in which a run sees its questions: infinite, sharded, resumable.

A batch is a function of (seed, step, host) alone. Each epoch is a new permutation
of all examples; a batch may reach over the end of one, so no example is ever left
out. Hosts take consecutive slices of one global batch, so the questions of a step
do not depend on how many hosts there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from asc_jax.types import UserError

if TYPE_CHECKING:
  import grain

T = TypeVar("T")


# For ever, for any run. grain's own infinite repeat has a length that batches of one
# example cannot count.
_EPOCHS = 2**32


def batches(
  examples: Sequence[T],
  *,
  batch_size: int,
  seed: int,
  host_index: int = 0,
  host_count: int = 1,
) -> grain.DatasetIterator[list[T]]:
  """Iterates for ever over one host's share of each step's questions.

  The shuffle is a keyed permutation that is evaluated index by index, so there is
  no shuffle buffer to restore: the state is the number of the next step, and a
  restored iterator goes on exactly, in any process.

  Args:
    examples: all questions, the same list in the same order on every host.
    batch_size: questions a step over all hosts.
    seed: of the permutations.
    host_index: this host's number.
    host_count: hosts that share a batch; divides `batch_size`.

  Returns:
    A grain iterator; `get_state()` is JSON and `set_state()` takes it.

  Raises:
    UserError: if there are fewer examples than a batch holds, or the hosts cannot
      share one evenly.
  """
  if batch_size > len(examples):
    raise UserError(
      f"config.data.batch_size={batch_size} is more than the {len(examples)} questions there are"
    )
  if batch_size % host_count:
    raise UserError(f"config.data.batch_size={batch_size} does not divide among {host_count} hosts")
  import grain  # loads jax where it is installed, which reading a corpus has no need of

  share = batch_size // host_count
  mine = slice(host_index * share, (host_index + 1) * share)
  steps = (
    grain.MapDataset.source(examples)
    .seed(seed)
    .shuffle()
    .repeat(_EPOCHS)  # reshuffles each epoch
    .batch(batch_size, batch_fn=lambda batch: list(batch)[mine])
  )
  # The examples are in memory: threads would only add a way to differ.
  return iter(steps.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)))

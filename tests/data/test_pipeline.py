"""The order of questions: sharded, reshuffled, exactly resumable."""

import itertools
import json
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from asc_jax.data import corpora, pipeline
from asc_jax.types import Example, UserError


def _examples(n):
  return [Example(id=str(i), corpus="toy", question=f"Question {i}?") for i in range(n)]


def _ids(iterator, steps):
  return [[e.id for e in next(iterator)] for _ in range(steps)]


def test_each_epoch_visits_every_question_once_in_a_new_order():
  batches = _ids(pipeline.batches(_examples(7), batch_size=3, seed=5), 14)  # six epochs of seven
  flat = [i for batch in batches for i in batch]
  epochs = [tuple(flat[i : i + 7]) for i in range(0, 42, 7)]
  assert all(sorted(epoch) == [str(i) for i in range(7)] for epoch in epochs)
  assert len(set(epochs)) > 1
  assert all(len(batch) == 3 for batch in batches)


def test_seed_decides_the_order():
  first, same, other = (
    _ids(pipeline.batches(_examples(40), batch_size=2, seed=s), 20) for s in (1, 1, 2)
  )
  assert first == same
  assert first != other


@pytest.mark.parametrize("hosts", [2, 3, 6])
def test_hosts_share_one_global_batch(hosts):
  whole = _ids(pipeline.batches(_examples(13), batch_size=6, seed=3), 9)
  parts = [
    _ids(pipeline.batches(_examples(13), batch_size=6, seed=3, host_index=h, host_count=hosts), 9)
    for h in range(hosts)
  ]
  assert [[i for part in step for i in part] for step in zip(*parts, strict=True)] == whole


@pytest.mark.parametrize("consumed", [0, 3, 25])
def test_restore_in_a_fresh_process_goes_on_exactly(consumed):
  # grain's window shuffle repeats a window here: before the first batch, and inside a shuffle.
  iterator = pipeline.batches(corpora.read("quickstart")[0], batch_size=2, seed=11)
  _ids(iterator, consumed)
  state = json.dumps(iterator.get_state())
  program = """
    import json, sys
    from asc_jax.data import corpora, pipeline
    iterator = pipeline.batches(corpora.read("quickstart")[0], batch_size=2, seed=11)
    iterator.set_state(json.loads(sys.argv[1]))
    print(json.dumps([[e.id for e in next(iterator)] for _ in range(4)]))
  """
  restored = subprocess.run(
    [sys.executable, "-c", textwrap.dedent(program), state],
    capture_output=True,
    text=True,
    check=True,
  )
  assert json.loads(restored.stdout) == _ids(iterator, 4)


def test_restore_rewinds_an_iterator_in_use():
  iterator = pipeline.batches(_examples(9), batch_size=4, seed=0)
  _ids(iterator, 2)
  state = iterator.get_state()
  ahead = _ids(iterator, 5)
  iterator.set_state(state)
  assert _ids(iterator, 5) == ahead


def test_order_is_mixed():
  flat = [
    int(i)
    for batch in _ids(pipeline.batches(_examples(100), batch_size=10, seed=0), 10)
    for i in batch
  ]
  assert Counter(abs(a - b) for a, b in itertools.pairwise(flat))[1] < 20


@pytest.mark.parametrize(
  ("batch_size", "hosts", "message"), [(5, 1, "more than the 4"), (4, 3, "3 hosts")]
)
def test_impossible_batches_are_refused(batch_size, hosts, message):
  with pytest.raises(UserError, match=message):
    pipeline.batches(_examples(4), batch_size=batch_size, seed=0, host_count=hosts)


def test_batches_of_one_example_go_on_for_ever():
  ids = [one for (one,) in _ids(pipeline.batches(_examples(3), batch_size=1, seed=0), 9)]
  assert [sorted(ids[i : i + 3]) for i in (0, 3, 6)] == [sorted(ids[:3])] * 3
  assert len(set(ids)) == 3

"""Pass rates that survive a killed run, and the questions they keep."""

import json

import pytest

from asc_jax.corver import learning_zone
from asc_jax.types import Example, UserError

SETTINGS = {"model": "m", "samples": 16, "temperature": 0.7, "top_p": 0.95}
PASSED = {"q0": 0, "q1": 1, "q2": 15, "q3": 16, "q4": 16, "q5": 7}


def examples(ids=tuple(PASSED)):
  return [Example(id=i, corpus="c", question=i) for i in ids]


class Sampler:
  """Judges by the table, and dies at the question `fatal`."""

  def __init__(self, fatal=None):
    self.seen, self.fatal = [], fatal

  def __call__(self, batch):
    if self.fatal in [e.id for e in batch]:
      raise KeyboardInterrupt
    self.seen += [e.id for e in batch]
    return [[n < PASSED[e.id] for n in range(16)] for e in batch]


def measure(path, judge, ids=tuple(PASSED), settings=SETTINGS):
  return learning_zone.measure(examples(ids), judge, path, settings=settings, batch_size=2)


def test_a_killed_run_goes_on_where_it_ended(tmp_path):
  path = tmp_path / "rates" / "r.jsonl"
  with pytest.raises(KeyboardInterrupt):
    measure(path, Sampler(fatal="q3"))
  path.write_bytes(path.read_bytes() + b'{"id": "q2", "corr')  # killed inside a write
  again = Sampler()
  assert measure(path, again) == PASSED
  assert again.seen == ["q2", "q3", "q4", "q5"]
  idle = Sampler()
  assert measure(path, idle, ids=("q5", "q1")) == {"q5": 7, "q1": 1}
  assert idle.seen == []
  assert [json.loads(line) for line in path.read_text().splitlines()] == [
    SETTINGS,
    *({"id": k, "correct": v} for k, v in PASSED.items()),
  ]


def test_rates_of_other_settings_are_refused(tmp_path):
  path = tmp_path / "r.jsonl"
  measure(path, Sampler())
  with pytest.raises(UserError, match="made with another temperature and top_p"):
    measure(path, Sampler(), settings={**SETTINGS, "temperature": 1.0, "top_p": 1.0})


@pytest.mark.parametrize("content", ["", "{}\n{}\n", "[1\n", '{}\n{"id": "a", "correct": null}\n'])
def test_a_broken_file_is_named(tmp_path, content):
  path = tmp_path / "r.jsonl"
  path.write_text(content)
  with pytest.raises(UserError, match=r"r\.jsonl.*make it again"):
    learning_zone.read(path)
  with pytest.raises(UserError, match="pass_rates=/dev/null cannot be written"):
    learning_zone.check("/dev/null/rates.jsonl", SETTINGS)
  with pytest.raises(UserError, match="is a folder; name a file"):
    learning_zone.check(tmp_path, SETTINGS)


def select(**settings):
  return [e.id for e in learning_zone.select(examples(), PASSED, **settings)]


def test_the_zone_keeps_what_is_sometimes_right():
  assert select() == ["q1", "q2", "q5"]
  assert select(low=2, high=14) == ["q5"]
  assert learning_zone.select(examples(("q5", "unmeasured")), PASSED) == examples(("q5",))


def test_anchors_are_mastered_and_drawn_once_for_a_seed():
  draws = {tuple(select(anchors=1, seed=seed)) for seed in range(20)}
  assert draws == {("q1", "q2", "q3", "q5"), ("q1", "q2", "q4", "q5")}
  assert select(anchors=1, seed=3) == select(anchors=1, seed=3)
  assert select(anchors=1000) == ["q1", "q2", "q3", "q4", "q5"]


def test_nothing_left_is_an_error():
  with pytest.raises(UserError, match="zone_low"):
    learning_zone.select(examples(("q0", "q3")), PASSED)

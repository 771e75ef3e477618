"""Flags: what each type takes, and that bad input is one line and status 2."""

import math
import os
import pathlib
import subprocess
import sys

import pytest
from ml_collections import config_dict

from asc_jax import cli, config
from asc_jax.config import FIELDS, Field
from asc_jax.types import UserError

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONAL = {name: field for name, field in FIELDS.items() if field.optional}
NUMBERS = {name: field for name, field in OPTIONAL.items() if field.type in (int, float)}
FLAGS = {"chips": Field(8, "chips of the slice", int, low=1), "slice": Field("v5p", "kind")}


def parse(*argv):
  return cli.parse(argv, FIELDS, FLAGS)


def get(c, name):
  return config.flatten(c)[name]


def test_defaults_without_arguments():
  c, values = parse()
  assert c == config.default_config() and values == {"chips": 8, "slice": "v5p"}


@pytest.mark.parametrize("name", NUMBERS)
def test_optional_numbers_take_numbers_and_none(name):
  """A field whose default is None took no number on the command line (ml_collections#33)."""
  field = NUMBERS[name]
  start = math.ceil(max(field.low or 0, 0))
  high = math.inf if field.high is None else field.high
  for text in (f"{min(start + more, high):g}" for more in (0, 1, 4)):
    value = cli.parse_value(f"config.{name}", field, text)
    assert value == float(text) and type(value) is field.type
  assert cli.parse_value(f"config.{name}", field, "None") is None
  c = config.default_config()
  cli.override(c, {name: f"{min(start + 2, high):g}"}, FIELDS)
  assert get(c, name) == min(start + 2, high) and type(get(c, name)) is field.type
  cli.override(c, {name: "None"}, FIELDS)
  assert get(c, name) is None
  for wrong in ("abc", "True", "", "none", "1,2"):
    with pytest.raises(
      UserError, match=rf"config.{name} takes {field.type.__name__} or None, not "
    ):
      cli.parse_value(f"config.{name}", field, wrong)
  if field.type is int:
    with pytest.raises(UserError, match=f"config.{name} takes int or None, not '0.1'"):
      parse(f"--config.{name}=0.1")


def test_zero_for_an_optional_float_is_a_float():
  c, _ = parse("--config.train.epochs=2")
  assert repr(c.train.epochs) == "2.0"
  c, _ = parse("--config.train.epochs=0.1")
  assert c.train.epochs == 0.1
  with pytest.raises(UserError, match=r"config.rollout.is_cap lies in \[1, inf\], not 0.1"):
    parse("--config.rollout.is_cap=0.1")


@pytest.mark.parametrize("name", sorted(set(OPTIONAL) - set(NUMBERS)))
def test_optional_strings_take_text_and_none(name):
  c, text = config.default_config(), (FIELDS[name].choices or ("0.1",))[0]
  cli.override(c, {name: text}, FIELDS)
  assert get(c, name) == text
  cli.override(c, {name: "None"}, FIELDS)
  assert get(c, name) is None
  with pytest.raises(UserError, match=f"config.{name} is empty"):
    parse(f"--config.{name}=")


@pytest.mark.parametrize("text", ["1000", "1e3", "1000.0", "1_000", "+1000", "10e2"])
def test_integers_take_any_spelling_of_a_whole_number(text):
  steps = parse(f"--config.train.steps={text}")[0].train.steps
  assert steps == 1000 and type(steps) is int


@pytest.mark.parametrize(
  "text", ["1.5", "1e-3", "ten", "", "nan", "inf", "1e99999999", "0x10", "None"]
)
def test_integers_refuse_all_else(text):
  with pytest.raises(UserError, match=f"config.train.steps takes int, not {text!r}"):
    parse(f"--config.train.steps={text}")


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1e-2", 0.01), (".5", 0.5), ("3", 3.0)])
def test_floats(text, value):
  beta = parse(f"--config.loss.beta={text}")[0].loss.beta
  assert beta == value and type(beta) is float


@pytest.mark.parametrize("text", ["false", "False", "0", "true", "TRUE", "1"])
def test_booleans(text):
  authored = parse(f"--config.credit.authored={text}", "--config.credit.vacuous=false")[0].credit
  assert authored.authored is (text.lower() in ("true", "1"))


@pytest.mark.parametrize("text", ["yes", "2", "", "None", "fals"])
def test_booleans_refuse_all_else(text):
  with pytest.raises(UserError, match=f"config.credit.authored takes true or false, not {text!r}"):
    parse(f"--config.credit.authored={text}")


@pytest.mark.parametrize("text", ["256,512", "(256, 512)", "[256,512]", "256,512,", "256,5.12e2"])
def test_tuples(text):
  assert parse(f"--config.data.prompt_buckets={text}")[0].data.prompt_buckets == (256, 512)


def test_tuples_of_one_of_strings_and_wrong_ones():
  assert parse("--config.data.prompt_buckets=512")[0].data.prompt_buckets == (512,)
  names = Field(("a", "b"), "names", tuple)
  assert cli.parse_value("--names", names, "x,y") == ("x", "y")
  with pytest.raises(UserError, match="takes a tuple of int, not '256,x'"):
    parse("--config.data.prompt_buckets=256,x")
  with pytest.raises(UserError, match="rising tuple"):
    parse("--config.data.prompt_buckets=")


def test_strings_are_taken_as_they_stand():
  text = 'Say "yes, no" = twice; 1e3'
  assert parse(f"--config.data.instruction={text}")[0].data.instruction == text
  assert parse("--config.data.instruction=")[0].data.instruction == ""


def test_the_later_of_two_counts_and_own_flags_are_parsed_alike():
  c, values = parse("--config.seed=1", "--chips=1e1", "--config.seed=2", "--slice=v6e")
  assert c.seed == 2 and values == {"chips": 10, "slice": "v6e"}
  with pytest.raises(UserError, match=r"--chips lies in \[1, inf\], not 0"):
    parse("--chips=0")


def test_a_method_comes_before_the_other_overrides():
  for argv in (
    ["--config.loss.beta=0.5", "--config.method=grpo"],
    ["--config.method=grpo", "--config.loss.beta=0.5"],
  ):
    c, _ = parse(*argv)
    assert (c.method, c.credit.unit, c.loss.beta) == ("grpo", "answer", 0.5)


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--config.loss.bta=0", "config.loss.bta is not a field; did you mean config.loss.beta?"),
    ("--config.clip_lo=0", "config.clip_lo is not a field; did you mean config.loss.clip_low?"),
    ("--config.loss=0", "config.loss is a group of fields: loss.beta, loss.clip_low"),
    ("--loss.beta=0", "--loss.beta is not a flag; did you mean --config.loss.beta?"),
    ("--workdri=x", "--workdri is not a flag"),
    ("--chip=4", "--chip is not a flag; did you mean --chips?"),
    ("--config.credit.authored", "--config.credit.authored takes its value after an equals sign"),
    ("--noconfig.credit.authored", "is not a flag; did you mean --config.credit.authored?"),
    ("false", "'false' belongs to no flag"),
    ("-chips=4", "'-chips=4' belongs to no flag"),
    ("--", "-- is not a flag"),
    ("--config=", "--config: there is no file ''"),
  ],
)
def test_a_wrong_argument_is_named(argument, message):
  with pytest.raises(UserError) as raised:
    parse(argument)
  assert message in str(raised.value)


HEAD = (
  "from asc_jax.config import default_config\ndef get_config(arg=''):\n  c = default_config()\n"
)


def config_file(folder, body):
  path = folder / "own.py"
  path.write_text(body)
  return str(path)


def test_a_config_file_with_an_argument_and_overrides(tmp_path):
  file = config_file(tmp_path, HEAD + "  c.loss.beta = 1\n  c.method = arg or 'asc'\n  return c\n")
  c, _ = parse(f"--config={file}:grpo", "--config.seed=3")
  assert (c.loss.beta, c.method, c.seed) == (1.0, "grpo", 3)
  assert parse(f"--config={file}")[0].method == "asc"


def test_an_override_may_complete_what_the_file_leaves_open(tmp_path):
  file = config_file(tmp_path, HEAD + "  c.loss.normalise = 'constant'\n  return c\n")
  assert parse(f"--config={file}", "--config.loss.constant=64")[0].loss.constant == 64.0
  with pytest.raises(UserError, match="config.loss.constant is needed"):
    parse(f"--config={file}")


@pytest.mark.parametrize(
  ("body", "message"),
  [
    ("x = 1\n", "own.py: has no function get_config()"),
    (HEAD + "  return {}\n", "own.py: get_config() gives no ConfigDict but a dict"),
    (HEAD + "  c.loss.bta = 1\n  return c\n", "own.py:4: bta is not a field; did you mean beta?"),
    (
      HEAD + "  c.train.steps = 'x'\n  return c\n",
      "own.py:4: TypeError: Could not override field 'steps'",
    ),
    (HEAD + "  1 / 0\n", "own.py:4: ZeroDivisionError: division by zero"),
    (HEAD + "  exit(3)\n", "own.py:4: SystemExit: 3"),
    ("def get_config(:\n", "own.py:1: SyntaxError: invalid syntax"),
    ("import no_such_module\n", "own.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
    (HEAD + "  c.train.steps = -1\n  return c\n", "config.train.steps lies in [0, inf], not -1"),
    (
      HEAD + "  from asc_jax.config import apply_method\n  apply_method(c, 'ascc')\n",
      "config.method is one of",
    ),
  ],
)
def test_a_wrong_config_file_is_named_with_its_line(tmp_path, body, message):
  with pytest.raises(UserError) as raised:
    parse(f"--config={config_file(tmp_path, body)}")
  assert message in str(raised.value)


def test_a_missing_config_file_has_a_near_one_named(tmp_path):
  file = config_file(tmp_path, HEAD)
  with pytest.raises(UserError, match=r"there is no file '.*owm.py'; did you mean .*own.py\?"):
    parse(f"--config={tmp_path / 'owm.py'}")
  with pytest.raises(UserError, match="there is no file"):
    parse(f"--config={tmp_path}")
  other = pathlib.Path(file).rename(tmp_path / "own.txt")
  with pytest.raises(UserError, match="takes a Python file"):
    parse(f"--config={other}")


def test_a_program_with_other_fields():
  fields = {"fit.l2": Field(0.5, "ridge", float, low=0.0), "fit.name": Field("a", "name")}
  c, _ = cli.parse(["--config.fit.l2=1"], fields, {})
  assert isinstance(c, config_dict.ConfigDict) and c.to_dict() == {"fit": {"l2": 1.0, "name": "a"}}
  assert cli.parse([], None, {}) == (None, {})
  with pytest.raises(UserError, match="--config.fit.l2 is not a flag"):
    cli.parse(["--config.fit.l2=1"], None, {})


PROGRAM = """
'''A program for a test.'''
from absl import logging
from asc_jax import cli
from asc_jax.config import Field
from asc_jax.types import UserError
import logging as std_logging

def main(config, workdir, mode):
  logging.info("from elsewhere")
  std_logging.getLogger("jax._src").warning("noise")
  std_logging.getLogger("other").warning("a warning")
  print(config.seed, workdir, mode)
  if mode == "user":
    raise UserError("two\\nlines")
  if mode == "bug":
    raise RuntimeError("a bug")

if __name__ == "__main__":
  cli.run(main, needs_workdir=True, mode=Field("fine", "what happens", choices=("fine", "user", "bug")))
"""


def program(tmp_path, *argv):
  path = tmp_path / "program.py"
  path.write_text(PROGRAM)
  return subprocess.run(
    [sys.executable, str(path), *argv],
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
  )


def test_a_program_runs_with_clean_lines(tmp_path):
  done = program(tmp_path, "--workdir=w", "--config.seed=7")
  assert (done.returncode, done.stdout) == (0, "7 w fine\n")
  assert done.stderr == "a warning\n"


@pytest.mark.parametrize(
  ("argv", "line"),
  [
    (["--config.seed=7"], "error: --workdir=DIR is missing: the folder of checkpoints, metrics and records"),
    (["--workdir=program.py"], "error: --workdir=program.py is a file; it takes a folder, made where absent"),
    (["--workdir=w", "--mode=user"], "error: two lines"),
    (["--workdir=w", "--mode=users"], "error: --mode is one of fine, user, bug, not 'users'; did you mean user?"),
    (["--workdir=w", "--config.train.steps", "3"], "error: --config.train.steps takes its value after an equals sign: --config.train.steps=VALUE"),
  ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(tmp_path, argv, line):
  done = program(tmp_path, *argv)
  errors = [text for text in done.stderr.splitlines() if text != "a warning"]
  assert (done.returncode, errors) == (2, [line])


def test_a_bug_keeps_its_traceback(tmp_path):
  done = program(tmp_path, "--workdir=w", "--mode=bug")
  assert done.returncode == 1
  assert "Traceback" in done.stderr and "RuntimeError: a bug" in done.stderr


def test_help_lists_every_flag_and_field(tmp_path):
  done = program(tmp_path, "--help")
  assert done.returncode == 0 and done.stdout.startswith("A program for a test.")
  for name in ("--workdir", "--mode", *(f"--config.{field}" for field in FIELDS)):
    assert f"  {name}=" in done.stdout


def test_help_may_be_cut_off(tmp_path):
  """A pager closed early, or `| head`, shows no traceback."""
  (tmp_path / "program.py").write_text(PROGRAM)
  command = f"{sys.executable} program.py --help | true"
  environment = os.environ | {"PYTHONPATH": str(ROOT)}
  done = subprocess.run(
    command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
  )
  assert not done.stderr

"""The command line of every program: a config file, overrides, and errors of one line.

  python -m asc_jax.main --config=FILE.py --config.loss.beta=0 --workdir=DIR

Every flag is written `--name=value`; of two alike the later counts. `--config=FILE.py`
runs the file's `get_config()`, `--config=FILE.py:TEXT` its `get_config("TEXT")`; without
it the defaults of `asc_jax.config` hold. What a field takes:

  int    8, or a whole number in another spelling (1e3, 10.0); 1.5 is refused
  float  a finite number, whole ones included (0 becomes 0.0)
  bool   true or false, 1 or 0
  tuple  comma-separated, brackets optional (384,512 or (384, 512))
  str    as it stands
  None   for optional fields

Anything else, and every `UserError`, ends the program with one line on stderr and exit
status 2. ml_collections' own flags are not used: they take `--config.flag false` for True
and `--config.names=x,y` for one name, and say nothing.
"""

from __future__ import annotations

import decimal
import glob
import inspect
import logging as std_logging
import os
import re
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

# Read by C++ code and by libraries when they load: no notes about the machine in a run's lines.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from absl import app, logging
from ml_collections import config_dict

from asc_jax import config as config_lib
from asc_jax.config import Field
from asc_jax.types import UserError

WORKDIR = Field(
  None, "folder of checkpoints, metrics and records; made where absent", optional=True
)


def run(
  main: Callable[..., Any],
  *,
  needs_workdir: bool = False,
  fields: Mapping[str, Field] | None = config_lib.FIELDS,
  positional: str | None = None,
  **flags: Field,
) -> NoReturn:
  """Reads the command line and calls `main(config, workdir, name=value, ...)`.

  Args:
    main: `config` is left out where `fields` is None, `workdir` where it is not needed.
    needs_workdir: whether `--workdir=DIR` must be given.
    fields: what `--config` may hold; None for a program without a config.
    positional: name of the argument that gets the words without dashes, one at least;
      None where there are none.
    **flags: the program's own flags, described as config fields are.

  Raises:
    SystemExit: always; status 0 after `main` or `--help`, 2 after bad input.
  """
  if needs_workdir:
    flags = {"workdir": WORKDIR, **flags}
  try:
    if {"--help", "-h"} & set(sys.argv[1:]):
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a pager or `head` may close the pipe
      print(usage(inspect.getdoc(sys.modules[main.__module__]) or "", fields, flags))
      sys.exit(0)
    config, values = parse(sys.argv[1:], fields, flags, positional)
    arguments = [] if fields is None else [config]
    if needs_workdir:
      workdir = values.pop("workdir")
      if not workdir:
        raise UserError("--workdir=DIR is missing: the folder of checkpoints, metrics and records")
      if os.path.exists(workdir) and not os.path.isdir(workdir):
        raise UserError(f"--workdir={workdir} is a file; it takes a folder, made where absent")
      arguments.append(workdir)
  except UserError as error:
    _fail(error)
  set_up_logging()

  def start(_):
    try:
      main(*arguments, **values)
    except UserError as error:
      _fail(error)

  app.run(start, argv=sys.argv[:1])


def _fail(error: UserError) -> NoReturn:
  print(f"error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
  sys.exit(2)


def parse(
  argv: Sequence[str],
  fields: Mapping[str, Field] | None,
  flags: Mapping[str, Field],
  positional: str | None = None,
) -> tuple[config_dict.ConfigDict | None, dict[str, Any]]:
  """The validated config and the values of the program's own flags."""
  path, overrides = None, {}
  values = {name: field.default for name, field in flags.items()}
  if positional:
    values[positional] = [a for a in argv if not a.startswith("--")]
    argv = [a for a in argv if a.startswith("--")]
    if not values[positional]:
      raise UserError(f"{positional.upper()} is missing: give one or more; --help says what")
  for argument in argv:
    name, equals, text = argument.removeprefix("--").partition("=")
    if not argument.startswith("--"):
      raise UserError(f"{argument!r} belongs to no flag; flags are written --name=value")
    if fields is not None and name == "config":
      path = text
    elif fields is not None and name.startswith("config."):
      overrides[name.removeprefix("config.")] = text
    elif name in flags:
      values[name] = parse_value(f"--{name}", flags[name], text)
    else:
      known = [*flags, *(["config"] if fields else []), *(f"config.{f}" for f in fields or ())]
      raise UserError(f"--{name} is not a flag{config_lib.nearest(name, known, '--')}")
    if not equals:
      raise UserError(f"--{name} takes its value after an equals sign: --{name}=VALUE")
  if fields is None:
    return None, values
  config = config_lib.default_config(fields) if path is None else load_config(path)
  config_lib.check_names(config, fields)
  override(config, overrides, fields)
  config_lib.validate(config, fields)
  return config, values


def override(
  config: config_dict.ConfigDict, texts: Mapping[str, str], fields: Mapping[str, Field]
) -> None:
  """Sets fields from the text of the command line."""
  if "method" in texts and fields is config_lib.FIELDS:
    # A preset is a set of defaults: whatever else is on the command line comes after it.
    config_lib.apply_method(config, texts["method"])
  for name, text in texts.items():
    if name not in fields:
      group = [f for f in fields if f.startswith(name + ".")]
      if group:
        raise UserError(f"config.{name} is a group of fields: {', '.join(group)}")
      raise UserError(f"config.{name} is not a field{config_lib.nearest(name, fields, 'config.')}")
    config_lib.assign(config, name, parse_value(f"config.{name}", fields[name], text))


def parse_value(label: str, field: Field, text: str) -> Any:
  """The value that a text stands for, of exactly the field's type and in its range."""
  value: Any = text
  if field.optional and text == "None":
    return None
  try:
    if field.type is tuple:
      items = re.sub(r"^\s*[(\[](.*)[)\]]\s*$", r"\1", text).split(",")
      kind = type(field.default[0])
      value = tuple(_scalar(kind, item.strip()) for item in items if item.strip())
    else:
      value = _scalar(field.type, text)
  except (ValueError, ArithmeticError):
    raise UserError(f"{label} takes {config_lib.wanted(field)}, not {text!r}") from None
  if value == "" and field.optional:
    raise UserError(f"{label} is empty; write None for none")
  config_lib.check_value(label, value, field)
  return value


def _scalar(kind: type, text: str) -> Any:
  if kind is bool:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
  if kind is int:
    number = decimal.Decimal(text)
    if number != number.to_integral_value() or abs(number) >= 2**63:
      raise ValueError(text)
    return int(number)
  return kind(text)


def load_config(path: str) -> config_dict.ConfigDict:
  """Runs `get_config` of FILE.py or FILE.py:ARGUMENT."""
  stem, colon, argument = path.partition(".py:")
  file = stem + ".py" if colon else path
  if not os.path.isfile(file):
    there = glob.glob(os.path.join(glob.escape(os.path.dirname(file)), "*.py"))
    raise UserError(f"--config: there is no file {file!r}{config_lib.nearest(file, there)}")
  if not file.endswith(".py"):
    raise UserError(f"--config takes a Python file with a get_config(), not {file!r}")
  try:
    get_config = runpy.run_path(file).get("get_config")
    if get_config is None:
      raise UserError("has no function get_config()")
    config = get_config(argument) if colon else get_config()
  except (Exception, SystemExit) as error:
    raise UserError(f"--config: {file}{_reason(file, error)}") from None
  if not isinstance(config, config_dict.ConfigDict):
    raise UserError(
      f"--config: {file}: get_config() gives no ConfigDict but a {type(config).__name__}"
    )
  return config


def _reason(file: str, error: BaseException) -> str:
  """`:LINE: what went wrong`, in one line."""
  lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
  line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
  text = str(error)
  # ml_collections lists all fields first; its last sentence has the name to correct.
  hint = re.search(r'Did you mean "(\S+)" instead of "(\S+)"', text)
  if hint:
    text = f"{hint[2]} is not a field; did you mean {hint[1]}?"
  elif not isinstance(error, UserError):
    text = f"{type(error).__name__}: {text}"
  return (f":{line}: " if line else ": ") + text


def set_up_logging() -> None:
  """Plain lines: this package's at INFO, other libraries' from WARNING on, jax's errors."""
  package = os.path.join(os.path.dirname(__file__), "")
  handler = logging.get_absl_handler()
  handler.addFilter(
    lambda record: record.levelno >= std_logging.WARNING or record.pathname.startswith(package)
  )
  handler.setFormatter(std_logging.Formatter("%(message)s"))
  logging.use_absl_handler()
  logging.set_verbosity(logging.INFO)
  for name in ("jax", "jaxlib"):
    std_logging.getLogger(name).setLevel(std_logging.ERROR)


def usage(text: str, fields: Mapping[str, Field] | None, flags: Mapping[str, Field]) -> str:
  """The program's docstring, its flags and the table of config fields."""
  parts = [text, "flags, each written --name=value:", config_lib.table(flags, "--")]
  if fields is not None:
    parts += ["  --config=FILE.py  the config file; the defaults where absent"]
    parts += ["config fields:", config_lib.table(fields, "--config.")]
  return "\n\n".join(part for part in parts if part)

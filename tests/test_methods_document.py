"""docs/methods.md names every method once, and each of its lines is a config that validates."""

import pathlib
import re
import shlex

import pytest

from asc_jax import cli, config

TEXT = (pathlib.Path(__file__).resolve().parent.parent / "docs" / "methods.md").read_text()
ROWS = [
  [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
  for line in TEXT.splitlines()
  if re.match(r"\| .*--config\.", line)
]


def parse(flags):
  return cli.parse(shlex.split(flags.strip("`")), config.FIELDS, {})[0]


def test_every_method_has_its_line():
  presets = TEXT.split("## Presets")[1].split("##")[0]
  named = re.findall(r"--config\.method=(\w+)", presets)
  assert sorted(named) == sorted(config.METHODS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_line_has_an_equation_and_flags_that_validate(row):
  name, equation, flags = row
  assert name and equation
  assert flags.startswith("`--config.") and flags.endswith("`")
  parse(flags)


def test_a_part_is_added_to_a_method_whatever_the_order():
  parts = [row[2].strip("`") for row in ROWS if "config.method" not in row[2]]
  assert len(parts) > 10
  for part in parts:
    for method in ("grpo_kl", "copy_penalty", "asc_answer"):
      after = parse(f"--config.method={method} {part}")
      assert after == parse(f"{part} --config.method={method}")
      preset = config.flatten(config.apply_method(config.default_config(), method))
      changed = {k for k, v in config.flatten(after).items() if preset[k] != v}
      assert changed <= set(re.findall(r"--config\.([\w.]+)=", part))


@pytest.mark.parametrize("off", ["authored", "vacuous", "supported"])
def test_a_preset_without_one_test_is_asc_with_its_flag(off):
  preset = config.flatten(parse(f"--config.method=asc_without_{off}"))
  flag = config.flatten(parse(f"--config.method=asc --config.credit.{off}=false"))
  assert preset | {"method": "asc"} == flag

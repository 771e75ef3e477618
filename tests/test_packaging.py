"""What is shipped and what is written about it agree with the code."""

import ast
import pathlib
import re

from asc_jax import config

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETUP = {
  keyword.arg: keyword.value
  for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
  if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
  for keyword in node.keywords
}


def literal(name):
  return ast.literal_eval(SETUP[name])


def canonical(requirement):
  name = re.match(r"[A-Za-z0-9_.-]+", requirement)[0]
  return re.sub(r"[-_.]+", "-", name).lower()


def test_every_data_file_is_package_data():
  package = ROOT / "asc_jax"
  shipped = {f for pattern in literal("package_data")["asc_jax"] for f in package.glob(pattern)}
  files = {f for f in package.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")}
  assert files and files <= shipped


def test_every_package_has_an_init():
  folders = {f.parent for f in (ROOT / "asc_jax").rglob("*.py")}
  assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_the_constraints_hold_every_requirement_and_no_place_of_this_machine():
  lines = (ROOT / "constraints.txt").read_text().splitlines()
  assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line) for line in lines)
  pinned = {canonical(line) for line in lines}
  extras = literal("extras_require")
  wanted = [*literal("install_requires")]
  for extra in extras.keys() - {"cuda"}:  # CI has no GPU
    wanted += extras[extra]
  assert not {canonical(r) for r in wanted} - pinned


def test_the_readme_names_only_real_methods_and_fields():
  """The whole list is docs/methods.md, which has its own test."""
  text = (ROOT / "README.md").read_text()
  presets = re.findall(r"^\| [^|]+ \| `(\w+)` \|", text, re.M)
  assert len(presets) > 8 and set(presets) <= set(config.METHODS)
  for name in re.findall(r"--config\.([a-z_]+\.[a-z_.]+)", text):
    assert name in config.FIELDS, name

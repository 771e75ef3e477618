"""Imports go one way, text/ and data/ need no jax, start-up loads no other framework.

Read from the sources with `ast`, so that an import inside a function counts too.
"""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "asc_jax"

# Lower imports nothing higher; equal layers are told apart by `SIDEWAYS`.
LAYERS = {
  "__init__": 0,
  "types": 0,
  "config": 0,
  "text": 1,
  "data": 1,
  "objective": 1,
  "sharding": 1,
  "models": 2,
  "checkers": 3,
  "corver": 3,
  "rl": 4,
  "evaluation": 5,
  "cli": 6,
  "main": 6,
  "evaluate": 6,
  "report": 6,
  "tools": 6,
}
TORCH_TOOL = PACKAGE / "tools/compare_hf.py"  # which compares with torch, and says so
SIDEWAYS = {("config", "types"), ("data", "text")}
COMMANDS = 6


def area(module: str) -> str:
  """`asc_jax.text.copying` -> `text`; `asc_jax` and `asc_jax.__version__` -> `__init__`."""
  name = [*module.split("."), "__init__"][1]
  return "__init__" if name.startswith("__") else name


def imported(path: pathlib.Path) -> set[str]:
  """Every module that a file imports, `from package import module` spelt out."""
  names: set[str] = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"{path}:{node.lineno} is a relative import"
      names.add(node.module)
      if node.module == "asc_jax":
        names.update(f"asc_jax.{alias.name}" for alias in node.names)
  return names


def allowed(importer: str, target: str) -> bool:
  if importer == target or LAYERS[target] < LAYERS[importer]:
    return True
  if LAYERS[importer] == COMMANDS == LAYERS[target]:
    return True
  return (importer, target) in SIDEWAYS


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
  importer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
  assert importer in LAYERS, f"{importer} has no layer; the design names them all"
  for name in imported(path):
    if name.split(".")[0] == "asc_jax":
      target = area(name)
      assert target in LAYERS and allowed(importer, target), f"{path.name} imports {name}"
    if importer in ("types", "config", "text", "data"):
      assert name.split(".")[0] not in ("jax", "flax", "optax"), name
    foreign = {"torch", "tensorflow"} - ({"torch"} if path == TORCH_TOOL else set())
    assert name.split(".")[0] not in foreign, f"{path.name} imports {name}"


def test_the_rule_refuses_upward_and_sideways_imports():
  assert allowed("rl", "models") and allowed("data", "text") and allowed("main", "cli")
  assert not allowed("models", "rl") and not allowed("text", "data")
  assert not allowed("checkers", "corver") and not allowed("objective", "sharding")


def loaded_after(statement: str) -> set[str]:
  code = f"import sys\n{statement}\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
  done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  return set(done.stdout.split())


@pytest.mark.parametrize("package", ["asc_jax.types", "asc_jax.text", "asc_jax.data"])
def test_host_packages_load_no_jax(package):
  modules = [package]
  folder = ROOT.joinpath(*package.split("."))
  if folder.is_dir():
    modules += [
      ".".join(p.relative_to(ROOT).with_suffix("").parts)
      for p in sorted(folder.rglob("*.py"))
      if p.name != "__init__.py"
    ]
  assert "jax" not in loaded_after("import " + ", ".join(modules))


def test_main_loads_no_other_framework():
  loaded = loaded_after("import asc_jax.main")
  assert "asc_jax" in loaded and not loaded & {"tensorflow", "torch"}

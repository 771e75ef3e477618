"""Pytest's set-up, read before any test imports jax.

Tests run on the CPU as eight devices, so that sharding is tested for real;
a silent broadcast between ranks raises, and a warning is an error (the
exceptions, all of other projects, are listed in pyproject.toml).
"""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
# Tests never fetch: a missing local file must fail at once, not after a time-out.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
  """The folder of public corpora beside the checkout; skips where it is absent."""
  path = ROOT.parent / "shared" / "data"
  if not path.is_dir():
    pytest.skip(f"needs the public corpora in {path}, which is no folder here")
  return path

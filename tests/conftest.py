"""Pytest's set-up, read before any test imports jax.

Tests run on the CPU as eight devices, so that sharding is tested for real;
a silent broadcast between ranks raises, and a warning is an error (the
exceptions, all of other projects, are listed in pyproject.toml).
"""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tiny programs take longer to compile than to run: LLVM need not polish them.
os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "")
  + " --xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
)
# Tests never fetch: a missing local file must fail at once, not after a time-out.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import pytest
from jax.experimental import topologies

from asc_jax import sharding

jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
  """The folder of public corpora beside the checkout; skips where it is absent."""
  path = ROOT.parent / "shared" / "data"
  if not path.is_dir():
    pytest.skip(f"needs the public corpora in {path}, which is no folder here")
  return path


@pytest.fixture(scope="session")
def tpu_mesh() -> jax.sharding.Mesh:
  """Eight v5p chips as data = fsdp = tensor = 2, to compile for; none is needed."""
  # libtpu would ask the cloud what machine this is.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
  # Two test processes may compile at once; the lock is for real chips.
  os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
  pytest.importorskip("libtpu", reason="needs the package libtpu, TPU's compiler")
  topology = topologies.get_topology_desc(platform="tpu", topology_name="v5p:2x2x2")
  return sharding.make_mesh(2, 2, 2, topology.devices)

"""Sampler and update of every family compile for a slice of eight v5p chips."""

import dataclasses

import hf_reference as hf
import pytest
import tpu_programs

from asc_jax.models import families

pytestmark = pytest.mark.tpu_compile


@pytest.fixture(scope="module", params=hf.FAMILIES)
def model(request, tpu_mesh):
  config = families.parse(hf.raw_config(request.param), request.param, dtype="bfloat16")
  # One layer of each kind compiles as several do.
  group = tuple(dict.fromkeys(config.group))
  config = dataclasses.replace(config, group=group, num_layers=2 * len(group))
  return tpu_programs.model_shapes(config, tpu_mesh)


def test_sampler(tpu_mesh, model):
  compiled = tpu_programs.lower_sampler(model, tpu_mesh).compile()
  assert compiled.memory_analysis().temp_size_in_bytes > 0


def test_update(tpu_mesh, model):
  lowered, _ = tpu_programs.lower_update(model, tpu_mesh, tpu_programs.objective())
  assert lowered.compile().memory_analysis().temp_size_in_bytes > 0

"""The policy of a finished or running run, without its optimizer."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
from ml_collections import config_dict

from asc_jax.models import checkpoints, lora
from asc_jax.models.decoder import DecoderState
from asc_jax.rl import checkpointing
from asc_jax.types import UserError


def load(
  config: config_dict.ConfigDict,
  workdir: str | pathlib.Path,
  *,
  step: int | None = None,
  dtype: str = "float32",
  mesh: jax.sharding.Mesh | None = None,
) -> tuple[int, DecoderState, Any]:
  """A complete checkpoint of a run.

  Args:
    config: the run's.
    workdir: the run's.
    step: which; None: the newest.
    dtype: compute type.
    mesh: where the weights go; any, whatever the run used.

  Returns:
    (step, policy, tokenizer).

  Raises:
    UserError: there is no complete checkpoint, or it is of another model.
  """
  step = checkpointing.latest_step(pathlib.Path(workdir)) if step is None else step
  if step is None:
    raise UserError(f"--workdir={workdir} holds no complete checkpoint; train there first")
  state, tokenizer = checkpoints.load(
    config.model.path,
    dtype=dtype,
    lora=lora.from_config(config.model.lora),
    mesh=mesh,
    attention=config.model.attention,
    remat=config.model.remat,
  )
  saved = checkpointing.restore(
    pathlib.Path(workdir), step, {"trainable": state.trainable()}
  )  # Adam's moments stay on the disk
  return step, state.with_trainable(saved["trainable"]), tokenizer

"""The policy of a finished or running run, without its optimizer."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp
from ml_collections import config_dict

from asc_jax.models import checkpoints, lora
from asc_jax.models.decoder import DecoderState
from asc_jax.rl import checkpointing
from asc_jax.types import UserError


def load(
  config: config_dict.ConfigDict,
  workdir: str | pathlib.Path,
  *,
  dtype: str = "float32",
  mesh: jax.sharding.Mesh | None = None,
) -> tuple[int, DecoderState, Any]:
  """The newest complete checkpoint of a run.

  Args:
    config: the run's.
    workdir: the run's.
    dtype: compute type.
    mesh: where the weights go; any, whatever the run used.

  Returns:
    (step, policy, tokenizer).

  Raises:
    UserError: there is no complete checkpoint, or it is of another model.
  """
  folder = pathlib.Path(workdir).absolute() / "checkpoints"
  step = checkpointing.Checkpoints(folder.parent).latest() if folder.is_dir() else None
  if step is None:
    raise UserError(f"--workdir={workdir} holds no complete checkpoint; train there first")
  settings = config.model.lora
  adapter = None
  if settings.rank:
    adapter = lora.LoraConfig(settings.rank, settings.alpha, lora.parse_targets(settings.targets))
  state, tokenizer = checkpoints.load(
    config.model.path,
    dtype=dtype,
    lora=adapter,
    mesh=mesh,
    attention=config.model.attention,
    remat=config.model.remat,
  )
  return step, state.with_trainable(_restore(folder, step, state.trainable())), tokenizer


def _restore(folder: pathlib.Path, step: int, like: Any) -> Any:
  """Reads what was trained, and leaves Adam's moments on the disk."""
  wanted = {
    name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    for name, x in checkpointing.named({"trainable": like}).items()
  }
  with ocp.PyTreeCheckpointer() as reader:
    path = folder / str(step) / "state"
    saved = reader.metadata(path).item_metadata
    for name, x in wanted.items():
      shape = tuple(saved[name].shape) if name in saved else None
      if shape != x.shape:
        raise UserError(
          f"checkpoint {folder / str(step)} is of another model: {name} has shape {shape}, the "
          f"config's model wants {x.shape}; use the config it was trained with"
        )
    restored = reader.restore(
      path,
      args=ocp.args.PyTreeRestore(
        wanted,
        restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
        partial_restore=True,
      ),
    )
  return jax.tree.unflatten(jax.tree.structure(like), [restored[name] for name in wanted])

"""Orbax checkpoints of a training run, and what makes a restart exact.

A checkpoint holds two items: `state`, a flat {path: array} tree of the trained
parameters, the optimizer's moments and counters; and `meta`, JSON with the data
cursor and the resolved config. Untrained base weights stay where they came from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from asc_jax.sharding import path_name
from asc_jax.types import UserError

# What orbax writes into a step's folder when all else is there.
COMMIT_MARKERS = ("_CHECKPOINT_METADATA", "commit_success.txt")

# Fields that a resumed run may change without changing its trajectory.
HARMLESS = (
    "checker.devices", "eval.", "mesh.", "train.allow_config_change", "train.checkpoint_every",
    "train.compilation_cache", "train.eval_every", "train.keep", "train.wandb",
)  # fmt: skip


def named(tree: Any) -> dict[str, jax.Array]:
  """{"path/to/leaf": leaf} of a pytree, in its order."""
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  return {path_name(path): leaf for path, leaf in leaves}


def digest(tree: Any) -> str:
  """SHA-256 over paths, types, shapes and bytes of a tree, in order of path."""
  sha = hashlib.sha256()
  for name, leaf in sorted(named(tree).items()):
    array = np.asarray(leaf)
    sha.update(f"{name} {array.dtype} {array.shape}\n".encode())
    sha.update(np.ascontiguousarray(array).data)
  return sha.hexdigest()


def config_diff(
  saved: dict[str, Any], current: dict[str, Any], harmless: tuple[str, ...] = HARMLESS
) -> list[str]:
  """Lines `field: saved -> current` for fields that matter, to the trajectory by default."""
  names = sorted(saved.keys() | current.keys())
  return [
    f"{name}: {saved.get(name)!r} -> {current.get(name)!r}"
    for name in names
    if saved.get(name) != current.get(name) and not name.startswith(harmless)
  ]


def is_complete(step: pathlib.Path) -> bool:
  """Whether orbax ended writing a step's folder."""
  return all((step / name).exists() for name in COMMIT_MARKERS)


def complete_steps(workdir: pathlib.Path) -> list[int]:
  """The complete steps of a run that may be running, rising; changes nothing."""
  steps = (pathlib.Path(workdir) / "checkpoints").glob("[0-9]*")
  return sorted(int(s.name) for s in steps if s.name.isdigit() and is_complete(s))


def latest_step(workdir: pathlib.Path) -> int | None:
  """The newest complete step of a run that may be running; changes nothing."""
  return max(complete_steps(workdir), default=None)


def meta(workdir: pathlib.Path, step: int) -> dict[str, Any]:
  """A checkpoint's data cursor and config; changes nothing."""
  folder = pathlib.Path(workdir).absolute() / "checkpoints" / str(step)
  with _reading(folder), ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
    return reader.restore(folder / "meta")


@contextlib.contextmanager
def _reading(folder: pathlib.Path) -> Iterator[None]:
  """Names the checkpoint whose files are damaged or lost."""
  try:
    yield
  except (OSError, ValueError, KeyError) as error:
    reason = str(error).strip().partition("\n")[0][:200]
    raise UserError(
      f"checkpoint {folder} is not readable ({type(error).__name__}: {reason}); remove that "
      "folder to go on from the checkpoint before it"
    ) from error


def restore(workdir: pathlib.Path, step: int, like: Any) -> Any:
  """The part of a checkpoint that `like` names, with its structure, types and shardings.

  Raises:
    UserError: the checkpoint holds other parameters than `like`.
  """
  wanted = {
    name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
    for name, x in named(like).items()
  }
  folder = pathlib.Path(workdir).absolute() / "checkpoints" / str(step)
  with _reading(folder), ocp.PyTreeCheckpointer() as reader:
    # The handler's own: the checkpointer looks for a step's metadata in an item's folder.
    saved = reader.handler.metadata(folder / "state").tree
    for name, x in wanted.items():
      shape = tuple(saved[name].shape) if name in saved else None
      if shape != x.shape:
        raise UserError(
          f"checkpoint {folder} is of another model: {name} has shape {shape}, the config's model "
          f"wants {x.shape}; use the config it was trained with"
        )
    args = ocp.args.PyTreeRestore(
      wanted,
      restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
      partial_restore=True,
    )
    restored = reader.restore(folder / "state", args=args)
  return jax.tree.unflatten(jax.tree.structure(like), [restored[name] for name in wanted])


class Checkpoints:
  """The checkpoints of one work directory.

  Args:
    workdir: the run's folder; checkpoints lie in `checkpoints/`.
    keep: how many stay.
  """

  def __init__(self, workdir: pathlib.Path, keep: int = 1):
    self.workdir = pathlib.Path(workdir).absolute()
    self.folder = self.workdir / "checkpoints"
    self._remove_incomplete()
    self._manager = ocp.CheckpointManager(
      self.folder,
      options=ocp.CheckpointManagerOptions(
        max_to_keep=keep, create=True, cleanup_tmp_directories=True
      ),
    )

  def _remove_incomplete(self):
    """A step whose commit marker is missing was not saved, whatever its name says."""
    for step in sorted(self.folder.glob("[0-9]*")):
      if step.name.isdigit() and not is_complete(step):
        logging.warning("checkpoint %s is incomplete; it is removed and the step runs again", step)
        if jax.process_index() == 0:
          shutil.rmtree(step)

  def latest(self) -> int | None:
    return self._manager.latest_step()

  def save(self, step: int, tree: Any, meta: dict[str, Any]) -> None:
    """Starts saving; returns once the arrays are copied to the host."""
    args = ocp.args.Composite(
      state=ocp.args.StandardSave(named(tree)), meta=ocp.args.JsonSave(meta)
    )
    self._manager.save(step, args=args, force=True)

  def wait(self) -> None:
    """Returns when every save under way is complete."""
    self._manager.wait_until_finished()


def refuse_changed_config(saved: dict[str, Any], current: dict[str, Any], allow: bool) -> None:
  """Raises UserError with the diff where a resumed run's config differs."""
  current = json.loads(json.dumps(current))  # tuples as JSON keeps them
  changes = config_diff(saved, current)
  if changes and not allow:
    raise UserError(
      f"the work directory holds a run of another config ({'; '.join(changes)}); choose another "
      "--workdir, or resume all the same with --config.train.allow_config_change=True"
    )

"""Orbax checkpoints of a training run, and what makes a restart exact.

A checkpoint holds two items: `state`, a flat {path: array} tree of the trained
parameters, the optimizer's moments and counters; and `meta`, JSON with the data
cursor and the resolved config. Untrained base weights stay where they came from.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
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
    "eval.", "mesh.", "train.allow_config_change", "train.checkpoint_every",
    "train.compilation_cache", "train.eval_every", "train.keep",
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


def config_diff(saved: dict[str, Any], current: dict[str, Any]) -> list[str]:
  """Lines `field: saved -> current` for fields that matter to the trajectory."""
  names = sorted(saved.keys() | current.keys())
  return [
    f"{name}: {saved.get(name)!r} -> {current.get(name)!r}"
    for name in names
    if saved.get(name) != current.get(name) and not name.startswith(HARMLESS)
  ]


class Checkpoints:
  """The checkpoints of one work directory.

  Args:
    workdir: the run's folder; checkpoints lie in `checkpoints/`.
    keep: how many stay.
  """

  def __init__(self, workdir: pathlib.Path, keep: int = 1):
    self.folder = pathlib.Path(workdir).absolute() / "checkpoints"
    self._remove_incomplete()
    self._manager = ocp.CheckpointManager(
      self.folder,
      item_handlers={  # named here, so that a fresh process can read the metadata
        "state": ocp.StandardCheckpointHandler(),
        "meta": ocp.JsonCheckpointHandler(),
      },
      options=ocp.CheckpointManagerOptions(
        max_to_keep=keep, create=True, cleanup_tmp_directories=True
      ),
    )

  def _remove_incomplete(self):
    """A step whose commit marker is missing was not saved, whatever its name says."""
    for step in sorted(self.folder.glob("[0-9]*")):
      if step.name.isdigit() and not all((step / name).exists() for name in COMMIT_MARKERS):
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

  def meta(self, step: int) -> dict[str, Any]:
    return self._manager.restore(step, args=ocp.args.Composite(meta=ocp.args.JsonRestore()))["meta"]

  def restore(self, step: int, like: Any) -> Any:
    """A tree with the structure, types and shardings of `like`.

    Raises:
      UserError: the checkpoint holds other parameters than `like`.
    """
    wanted = named(like)
    self._check(step, wanted)
    abstract = {
      name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
      for name, leaf in wanted.items()
    }
    restored = self._manager.restore(
      step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
    )["state"]
    return jax.tree.unflatten(jax.tree.structure(like), [restored[name] for name in wanted])

  def _check(self, step: int, wanted: dict[str, jax.Array]):
    saved = self._manager.item_metadata(step)["state"]
    for name in sorted(wanted.keys() | saved.keys()):
      ours, theirs = wanted.get(name), saved.get(name)
      shapes = tuple(None if x is None else tuple(x.shape) for x in (ours, theirs))
      if shapes[0] != shapes[1]:
        raise UserError(
          f"checkpoint {self.folder / str(step)} is of another model: {name} has shape "
          f"{shapes[1]}, the config's model wants {shapes[0]}; use the config it was trained with"
        )

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

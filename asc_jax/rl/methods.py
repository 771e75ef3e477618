"""Which loop trains which config."""

from __future__ import annotations

from ml_collections import config_dict

from asc_jax.rl import loop, trainer, warmup
from asc_jax.types import UserError


def loop_of(config: config_dict.ConfigDict) -> type[loop.Loop]:
  """The class that runs a config: by `train.objective`, and by `corver.on`."""
  if config.corver.on:
    raise UserError(
      "config.method=corver is not wired into training yet; its index and reward are in "
      "asc_jax.tools.corver_index and asc_jax.corver"
    )
  return {"credit": trainer.Trainer, "sft": warmup.WarmUp}[config.train.objective]

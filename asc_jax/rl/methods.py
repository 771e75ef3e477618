"""Which loop trains which config."""

from __future__ import annotations

from ml_collections import config_dict

from asc_jax.rl import corver_trainer, dpo, loop, trainer, warmup


def loop_of(config: config_dict.ConfigDict) -> type[loop.Loop]:
  """The class that runs a config: by `train.objective`, and by `corver.on`."""
  if config.corver.on:
    return corver_trainer.CorverTrainer
  loops = {"credit": trainer.Trainer, "dpo": dpo.Dpo, "sft": warmup.WarmUp}
  return loops[config.train.objective]

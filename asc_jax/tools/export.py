"""Exports a trained policy for other programs.

  python -m asc_jax.tools.export --config=configs/quickstart.py --workdir=DIR --out=FOLDER

Writes config.json, safetensors and the tokenizer as transformers reads them, from the
newest checkpoint of the run in `--workdir`, which was made with the same config. An
adapter is merged into the weights; `--adapter=true` writes it alone, as peft reads it.
"""

from __future__ import annotations

from absl import logging

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.data import files
from asc_jax.types import UserError


def main(config, workdir: str, out: str | None, adapter: bool) -> None:
  """Writes the newest checkpoint of `workdir` to the folder `out`."""
  out = files.new_folder(out, "--out", "model")
  if adapter and not config.model.lora.rank:
    raise UserError("--adapter=true needs an adapter, and config.model.lora.rank is 0")
  from asc_jax.models import checkpoints
  from asc_jax.rl import trained

  base = checkpoints.check(config.model.path)
  step, state, tokenizer = trained.load(config, workdir)
  if adapter:
    checkpoints.export_adapter(state, out, base=str(config.model.path), tokenizer=tokenizer)
  else:
    checkpoints.export(
      state, out, config_json=base.raw, tokenizer=tokenizer, generation=base.generation
    )
  logging.info("wrote step %d to %s", step, out)


if __name__ == "__main__":
  cli.run(
    main,
    needs_workdir=True,
    out=Field(None, "folder to write, not there yet", optional=True),
    adapter=Field(False, "write the adapter alone, in peft's layout", bool),
  )

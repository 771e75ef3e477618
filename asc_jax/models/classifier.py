"""BERT and RoBERTa with a classification head; RoBERTa's positions are counted from 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from asc_jax.models import bert, loading
from asc_jax.types import UserError

# How a checkpoint names the two maps of its head, and its encoder's prefix.
ROBERTA = ("roberta.", "classifier.dense", "classifier.out_proj")
BERT = ("bert.", "bert.pooler.dense", "classifier")
ALIGNSCORE = ("", "pooler.dense", "tri_layer")
_LEAVES = {"kernel": "weight", "bias": "bias"}


def roberta_config(raw: Mapping[str, Any]) -> bert.BertConfig:
  """Reads a RoBERTa checkpoint's config.json; its padding id precedes the positions."""
  padding = raw.get("pad_token_id", 1)
  if type(padding) is not int:
    raise UserError(f"config.json of a RoBERTa checkpoint: pad_token_id is {padding!r}, no integer")
  return bert.BertConfig.from_dict(raw, position_offset=padding + 1)


class Classifier(nnx.Module):
  """Logits from the first token: out(tanh(dense(h)))."""

  def __init__(self, config: bert.BertConfig, classes: int, rngs: nnx.Rngs):
    self.encoder = bert.Bert(config, rngs)
    self.dense = nnx.Linear(config.hidden_size, config.hidden_size, rngs=rngs)
    self.out = nnx.Linear(config.hidden_size, classes, rngs=rngs)

  def __call__(self, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """int32[B, L] right-padded, int32[B] -> float32[B, classes].

    The ids of BERT's second text are shifted by the vocabulary's size, which makes
    their type 1.
    """
    types, tokens = jnp.divmod(tokens, self.encoder.config.vocab_size)
    first = self.encoder(tokens, lengths, types)[:, 0]  # [B, D]
    return self.out(jnp.tanh(self.dense(first)))


def from_weights(
  config: bert.BertConfig, weights: Mapping[str, np.ndarray], names: tuple[str, str, str]
) -> Classifier:
  """Builds the classifier from a checkpoint's tensors.

  Args:
    config: the encoder's sizes.
    weights: tensors by name, in PyTorch's layout.
    names: ROBERTA, BERT or ALIGNSCORE.

  Raises:
    UserError: naming a tensor that is missing or has another shape.
  """
  prefix, dense, out = names
  tensors = loading.Tensors(weights, "classifier")
  heads = {"dense": dense, "out": out}
  classes = len(tensors(f"{out}.bias"))

  def read(path: str) -> np.ndarray:
    module, *rest = path.split(".")
    if module == "encoder":
      return bert.read_tensor(config, weights, prefix, ".".join(rest))
    return tensors(f"{heads[module]}.{_LEAVES[rest[0]]}", transpose=rest[0] == "kernel")

  return loading.build(lambda: Classifier(config, classes, nnx.Rngs(0)), read)


def to_weights(model: Classifier, names: tuple[str, str, str]) -> dict[str, np.ndarray]:
  """The tensors that `from_weights` reads, in float32."""
  prefix, dense, out = names
  heads = {"dense": dense, "out": out}
  found: dict[str, np.ndarray] = {}
  for path, leaf in nnx.to_flat_state(nnx.state(model)):
    module, *rest = map(str, path)
    value = np.asarray(leaf[...], np.float32)
    if module == "encoder":
      found |= bert.write_tensor(value, prefix, ".".join(rest))
    else:
      found[f"{heads[module]}.{_LEAVES[rest[0]]}"] = value.T if rest[0] == "kernel" else value
  return {name: np.ascontiguousarray(value) for name, value in found.items()}

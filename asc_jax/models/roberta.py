"""RoBERTa with a classification head: BERT's encoder, positions counted from 2."""

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
SEQUENCE_CLASSIFIER = ("roberta.", "classifier.dense", "classifier.out_proj")
ALIGNSCORE = ("", "pooler.dense", "tri_layer")


def config_from_dict(raw: Mapping[str, Any]) -> bert.BertConfig:
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
    """int32[B, L] right-padded, int32[B] -> float32[B, classes]."""
    first = self.encoder(tokens, lengths)[:, 0]  # [B, D]
    return self.out(jnp.tanh(self.dense(first)))


def from_weights(
  config: bert.BertConfig, weights: Mapping[str, np.ndarray], names: tuple[str, str, str]
) -> Classifier:
  """Builds the classifier from a checkpoint's tensors.

  Args:
    config: the encoder's sizes.
    weights: tensors by name, in PyTorch's layout.
    names: SEQUENCE_CLASSIFIER or ALIGNSCORE.

  Raises:
    UserError: naming a tensor that is missing or has another shape.
  """
  prefix, dense, out = names
  tensors = loading.Tensors(weights, "RoBERTa classifier")
  heads = {"dense": dense, "out": out}
  leaves = {"kernel": "weight", "bias": "bias"}
  classes = len(tensors(f"{out}.bias"))

  def read(path: str) -> np.ndarray:
    module, *rest = path.split(".")
    if module == "encoder":
      return bert.read_tensor(config, weights, prefix, ".".join(rest))
    return tensors(f"{heads[module]}.{leaves[rest[0]]}", transpose=rest[0] == "kernel")

  return loading.build(lambda: Classifier(config, classes, nnx.Rngs(0)), read)

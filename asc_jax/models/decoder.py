"""The causal decoder: one prompt pass shared by the G answers of a question.

`prefill` runs all but the last token of each prompt once; `extend` runs answer tokens
that read the prompt's keys and values without copying them G times. Sampling,
log-probabilities, the loss, preference pairs and judges all use these two.

Parameters are a nested dict of arrays, paths joined by "/". A model is R repeats of a
group of layers (`DecoderConfig.group`): 1 layer for Llama and Qwen, several where kinds
of layers alternate. Layer l of a checkpoint is row l // len(group) of
blocks/layer_{l % len(group)}. L below is R; every kernel is [in, out]:

  embed/embedding                                   [V, D]
  blocks/layer_0/attn_norm/scale                    [L, D]
  blocks/layer_0/attn/{q,k,v}_proj/kernel           [L, D, heads * H]
  blocks/layer_0/attn/{q,k,v}_proj/bias             [L, heads * H]  where qkv_bias
  blocks/layer_0/attn/{q,k}_norm/scale              [L, H]          where qk_norm
  blocks/layer_0/attn/o_proj/kernel                 [L, N * H, D]
  blocks/layer_0/mlp_norm/scale                     [L, D]
  blocks/layer_0/mlp/{gate,up}_proj/kernel          [L, D, F]
  blocks/layer_0/mlp/down_proj/kernel               [L, F, D]
  final_norm/scale                                  [D]
  head/kernel                                       [D, V]          where not tied

An adapter is a tree of the same paths with lora_a [L, in, r] and lora_b [L, r, out] in
the place of kernel.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from asc_jax import sharding
from asc_jax.models.blocks import Block, Cell, Memory, room
from asc_jax.models.delta_net import DeltaConfig
from asc_jax.models.layers import AttentionConfig, rms_norm
from asc_jax.models.lora import LoraConfig


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
  """What a decoder is made of, and how it computes.

  Attributes:
    family: name of the checkpoint's architecture (families.py).
    vocab_size: V.
    width: D.
    mlp_width: F, hidden width of the MLP.
    num_layers: layers in all; a multiple of len(group).
    group: the repeating group of layers.
    norms: the norms of a layer, of attn_norm, attn_post_norm, mlp_norm, mlp_post_norm.
    norm_eps: epsilon of every RMS norm.
    norm_offset: norms multiply by this plus their scale (1 for Qwen3.5).
    activation: of the MLP's gate, "silu" or "gelu_tanh".
    layer_scale: each layer's output is times a constant of the checkpoint (Gemma 4).
    embed_scale: embeddings are times this (Gemma).
    softcap: logits are softcap * tanh(logits / softcap), or as they are for None.
    tied: logits come from the embedding.
    dtype: compute type; logits, norms and softmaxes are float32 always.
    attention: backend, see attention.attend.
    remat: what the backward pass recomputes: each "block", all of it but the "dots"
      of its projections, or "none".
  """

  family: str
  vocab_size: int
  width: int
  mlp_width: int
  num_layers: int
  group: tuple[AttentionConfig | DeltaConfig, ...]
  norms: tuple[str, ...] = ("attn_norm", "mlp_norm")
  norm_eps: float = 1e-5
  norm_offset: float = 0.0
  activation: str = "silu"
  layer_scale: bool = False
  embed_scale: float = 1.0
  softcap: float | None = None
  tied: bool = False
  dtype: str = "float32"
  attention: str = "auto"
  remat: str = "block"

  @property
  def repeats(self) -> int:
    return self.num_layers // len(self.group)


@functools.lru_cache(maxsize=64)
def _graph(config: DecoderConfig, lora: LoraConfig | None) -> nnx.GraphDef:
  """The block's structure, without arrays."""
  return nnx.split(nnx.eval_shape(lambda: Block(config, lora, rngs=nnx.Rngs(0))))[0]


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=["params", "adapter"],
  meta_fields=["config", "lora"],
)
@dataclasses.dataclass(frozen=True)
class DecoderState:
  """A decoder: weights, an adapter or None, and what they mean.

  A pytree whose static part (config, lora) is hashable, so it passes through jax.jit.
  """

  params: dict[str, Any]
  adapter: dict[str, Any] | None
  config: DecoderConfig
  lora: LoraConfig | None = None

  def trainable(self) -> dict[str, Any]:
    """What the optimizer sees: the adapter where there is one, else the weights."""
    return self.params if self.adapter is None else self.adapter

  def with_trainable(self, tree: dict[str, Any]) -> DecoderState:
    """The same decoder with `tree` in the place of `trainable()`."""
    if self.adapter is None:
      return dataclasses.replace(self, params=tree)
    return dataclasses.replace(self, adapter=tree)

  def reference(self) -> DecoderState:
    """The same weights with the adapter off."""
    return dataclasses.replace(self, adapter=None, lora=None)


class Prefix(NamedTuple):
  """What `extend` needs of the prompts; leading axis L of each array is the repeats."""

  layers: dict[str, Memory]  # layer_0: K and V [L, B, K, P, H]
  lengths: jax.Array  # int32[B], tokens of the prefix: the prompt's but the last


def init(config: DecoderConfig, key: jax.Array, lora: LoraConfig | None = None) -> DecoderState:
  """A decoder with random float32 weights; the adapter, if any, starts as a no-op."""
  embed_key, head_key, blocks_key = jax.random.split(key, 3)
  params: dict[str, Any] = {
    "embed": {"embedding": jax.random.normal(embed_key, (config.vocab_size, config.width)) * 0.02},
    "blocks": _init_blocks(config, None, blocks_key, nnx.Param),
    "final_norm": {"scale": jnp.full((config.width,), 1.0 - config.norm_offset)},
  }
  if not config.tied:
    kernel = jax.random.normal(head_key, (config.width, config.vocab_size))
    params["head"] = {"kernel": kernel * config.width**-0.5}
  state = DecoderState(params, None, config)
  return state if lora is None else add_adapter(state, lora, key)


def add_adapter(state: DecoderState, lora: LoraConfig, key: jax.Array) -> DecoderState:
  """`state` with a fresh float32 adapter, a no-op until it is trained."""
  adapter = {"blocks": _init_blocks(state.config, lora, key, nnx.LoRAParam)}
  return dataclasses.replace(state, adapter=adapter, lora=lora)


def _init_blocks(config, lora, key, kind) -> dict[str, Any]:
  def one(key):
    block = Block(config, lora, rngs=nnx.Rngs(params=key, lora=key))
    return nnx.to_pure_dict(nnx.state(block, kind))

  # Compiled, so that kernels of which only the adapter is kept are never made.
  return jax.jit(jax.vmap(one))(jax.random.split(key, config.repeats))


def _stacked(state: DecoderState) -> dict[str, Any]:
  """Weights and adapter of the blocks in one tree."""
  blocks = state.params["blocks"]
  if state.adapter is None:
    return blocks

  def join(a, b):
    return a | {k: join(a[k], v) if k in a else v for k, v in b.items()}

  return join(blocks, state.adapter["blocks"])


# What the backward pass keeps of a block besides its input.
_POLICIES = {
  "block": jax.checkpoint_policies.nothing_saveable,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def _scan(state: DecoderState, body, carry, xs, *, gather: bool = True):
  """Runs `body(block, index, carry, x)` over the repeats; recomputes it backwards.

  `gather`: weights are made whole over fsdp before use, right for many tokens. While
  decoding it is cheaper to leave the compiler to move the few activations.
  """
  config = state.config
  graph = _graph(config, state.lora)

  def step(carry, inputs):
    params, index, x = inputs
    if gather:
      params = sharding.gathered(params, config.dtype)
      carry = jax.tree.map(sharding.split_batch, carry)
    return body(nnx.merge(graph, params), index, carry, x)

  if config.remat != "none":
    step = jax.checkpoint(step, prevent_cse=False, policy=_POLICIES[config.remat])
  return jax.lax.scan(step, carry, (_stacked(state), jnp.arange(config.repeats), xs))


def _gathered(state: DecoderState) -> DecoderState:
  """Embedding and head whole over fsdp, as `_scan` does to the layers."""
  outer = {name: node for name, node in state.params.items() if name != "blocks"}
  outer = sharding.gathered(outer, state.config.dtype)
  return dataclasses.replace(state, params=state.params | outer)


def embed(state: DecoderState, tokens: jax.Array) -> jax.Array:
  """[..., D] of token ids, what the first layer reads."""
  x = state.params["embed"]["embedding"][tokens].astype(state.config.dtype)
  return x * jnp.asarray(state.config.embed_scale, x.dtype)


def final_norm(state: DecoderState, x: jax.Array) -> jax.Array:
  """What `logits` reads of the last layer's output [..., D]."""
  config = state.config
  return rms_norm(x, state.params["final_norm"]["scale"], config.norm_eps, config.norm_offset)


def _prefill_block(config, block, index, x, lengths):
  """One group over the prompts x [B, 1, P, D]; the very last layer stops at K and V."""
  memory = {}
  for name, layer in block.layers():
    final = name == f"layer_{len(config.group) - 1}"
    skip = index == config.repeats - 1 if final else False
    x, memory[name] = layer.prefill(x, lengths, skip)
  return x, memory


def prefill(state: DecoderState, tokens: jax.Array, lengths: jax.Array) -> Prefix:
  """Keys and values of every prompt token but the last.

  The last real token is the first that `extend` is fed. Arrays keep the bucket's P
  columns; those at and after lengths - 1 are never read.

  Args:
    tokens: int32[B, P], padded on the right.
    lengths: int32[B], real tokens, at least 1.
  """
  config = state.config

  def body(block, index, x, _):
    return _prefill_block(config, block, index, x, lengths)

  _, layers = _scan(state, body, embed(_gathered(state), tokens)[:, None], None)
  return Prefix(layers, lengths - 1)


def init_cache(
  state: DecoderState, prefix: Prefix, groups: int, max_tokens: int
) -> dict[str, Memory]:
  """Room for what G answers add: keys and values [L, B, K, G, T, H], or their states."""

  return {name: room(memory, groups, max_tokens) for name, memory in prefix.layers.items()}


def extend(state: DecoderState, prefix: Prefix, tokens: jax.Array, offset, cache=None):
  """Runs answer tokens after the prefix.

  Fed [last prompt token, y_1, ..., y_{T-1}], position t of the result predicts y_t.

  Args:
    tokens: int32[B, G, T].
    offset: places of the answer that went before, int or traced.
    cache: from `init_cache`, holding the places before offset. None: tokens are the
      whole answer and offset is 0.

  Returns:
    (hidden [B, G, T, D] after the final norm, cache).
  """

  offset = 0 if cache is None else jnp.asarray(offset, jnp.int32)

  def body(block, index, carry, memory):
    x, cache = carry
    cells = {}
    for name, layer in block.layers():
      cells[name] = Cell(None if cache is None else cache[name], index, offset)
      x = layer.extend(x, memory[name], prefix.lengths, offset, cells[name])
    return (x, cache and {name: cell.cache for name, cell in cells.items()}), None

  state = state if cache is not None else _gathered(state)
  carry = (embed(state, tokens), cache)
  (x, cache), _ = _scan(state, body, carry, prefix.layers, gather=cache is None)
  return final_norm(state, x), cache


def answer_inputs(tokens: jax.Array, lengths: jax.Array, answers: jax.Array) -> jax.Array:
  """[last prompt token, y_1, ..., y_{T-1}], int32[B, G, T]."""
  last = jnp.take_along_axis(tokens, lengths[:, None] - 1, axis=1)[:, :, None]
  last = jnp.broadcast_to(last, (*answers.shape[:2], 1))
  return jnp.concatenate([last, answers[..., :-1]], axis=-1)


def answer_log_probs(
  state: DecoderState,
  tokens: jax.Array,
  lengths: jax.Array,
  answers: jax.Array,
  *,
  temperature: float,
  chunk: int,
) -> jax.Array:
  """log p(answer token | prompt, answer so far), float32[B, G, T], differentiable.

  Prompt and answers go through each block together, so that weights are read once.

  Args:
    tokens: int32[B, P], prompts padded on the right.
    lengths: int32[B].
    answers: int32[B, G, T]; values of padding are meaningless.
    temperature: logits are divided by it.
    chunk: answer positions whose logits exist at one time.
  """
  config = state.config
  inputs = answer_inputs(tokens, lengths, answers)

  def body(block, index, carry, _):
    x, y = carry
    x, memory = _prefill_block(config, block, index, x, lengths)
    for name, layer in block.layers():
      y = layer.extend(y, memory[name], lengths - 1, 0, Cell(None, index, 0))
    return (x, y), None

  state = _gathered(state)
  carry = (embed(state, tokens)[:, None], embed(state, inputs))
  (_, y), _ = _scan(state, body, carry, None)
  return log_probs(state, final_norm(state, y), answers, temperature=temperature, chunk=chunk)


def logits(state: DecoderState, hidden: jax.Array) -> jax.Array:
  """float32[..., V] of hidden [..., D]."""
  if state.config.tied:
    weight, axis = state.params["embed"]["embedding"], 1
  else:
    weight, axis = state.params["head"]["kernel"], 0
  rows = hidden.reshape(-1, hidden.shape[-1])  # as in layers.Linear
  dims = (((1,), (axis,)), ((), ()))
  scores = jax.lax.dot_general(
    rows, weight.astype(hidden.dtype), dims, preferred_element_type=jnp.float32
  )
  scores = scores.reshape(*hidden.shape[:-1], scores.shape[-1])
  cap = state.config.softcap
  return scores if cap is None else cap * jnp.tanh(scores / cap)


def log_probs(
  state: DecoderState, hidden: jax.Array, targets: jax.Array, *, temperature: float, chunk: int
) -> jax.Array:
  """float32[B, G, T] of targets [B, G, T]; at most about `chunk` positions' logits exist at once."""
  batch, groups, length, width = hidden.shape
  state = _gathered(state)
  step = max(1, min(length, chunk * sharding.batch_shards() // (batch * groups)))
  padding = -length % step
  hidden = jnp.pad(hidden, ((0, 0), (0, 0), (0, padding), (0, 0)))
  targets = jnp.pad(targets, ((0, 0), (0, 0), (0, padding)))

  @functools.partial(jax.checkpoint, prevent_cse=False)
  def one(hidden, targets):
    scores = logits(state, hidden) / temperature  # [B, G, step, V]
    chosen = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 3) == targets[..., None]
    picked = jnp.sum(jnp.where(chosen, scores, 0.0), axis=-1)
    return picked - jax.nn.logsumexp(scores, axis=-1)

  parts = jax.lax.map(
    lambda args: one(*args),
    (
      jnp.moveaxis(hidden.reshape(batch, groups, -1, step, width), 2, 0),
      jnp.moveaxis(targets.reshape(batch, groups, -1, step), 2, 0),
    ),
  )  # [T / step, B, G, step]
  return jnp.moveaxis(parts, 0, 2).reshape(batch, groups, -1)[..., :length]

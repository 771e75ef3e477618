"""Bespoke-MiniCheck-7B: an InternLM2 chat model that answers Yes or No.

P(supported) is the probability, among the five likeliest first answer tokens, of those
that read "yes". The system prompt that the model was published with is not part of
this project: give it as config.checker.prompt; ours is the default, and scores with it
are not the paper's.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from absl import logging

from asc_jax.checkers import base, prompt_files
from asc_jax.checkers.shared_document import SharedDocument, reading, window_of
from asc_jax.models import checkpoints
from asc_jax.types import UserError

TOP = 5


class Bespoke(SharedDocument):
  """See the module's docstring."""

  name = "bespoke"


def yes_probability(yes: jax.Array, logits: jax.Array) -> jax.Array:
  """logits [..., V] -> the "yes" ids' share of probability within the five likeliest.

  Args:
    yes: bool[V].
    logits: float32[..., V].
  """
  top, ids = jax.lax.top_k(jax.nn.log_softmax(logits), TOP)
  return jnp.minimum(jnp.sum(jnp.where(yes[ids], jnp.exp(top), 0.0), axis=-1), 1.0)


def load(
  path: str | None = None,
  *,
  prompt: str | None = None,
  dtype: str = "float32",
  mesh=None,
  tokens_per_batch: int = 256,
) -> Bespoke:
  """Reads the folder as it is published.

  Args:
    path: the folder, or what else `models.checkpoints.load` takes.
    prompt: file with the system prompt; None for this project's own.
    dtype: of weights and computation.
    mesh: where the weights go.
    tokens_per_batch: sentence tokens that one call extends.

  Raises:
    UserError: before weights load, where it is another architecture, or no token reads "yes".
  """
  path = base.require_path(Bespoke.name, path)
  system = prompt_files.read(prompt, "bespoke_system.txt")
  found = checkpoints.check(path)
  if found.config.family != "internlm2":
    raise UserError(
      f"checker bespoke is an InternLM2, and {path} is a {found.config.family}; as a judge of "
      "another kind it is named judge"
    )
  yes = reading(checkpoints.load_tokenizer(path), found.config.vocab_size, "yes")
  if not yes.any():
    raise UserError(f"checker bespoke: no token of {path}'s tokenizer reads yes; give its own")
  state, tokenizer, hashed = base.read_decoder(path, dtype=dtype, mesh=mesh)
  if prompt is None:
    logging.warning(
      "checker bespoke runs with this project's own system prompt: R is not the paper's; "
      "give the published prompt as config.checker.prompt=FILE"
    )

  def messages(document: str, sentence: str):
    return [
      {"role": "system", "content": system},
      {"role": "user", "content": f"Document: {document}\nClaim: {sentence}"},
    ]

  return Bespoke(
    state,
    tokenizer,
    messages,
    functools.partial(yes_probability, jnp.asarray(yes)),
    weights_hash=hashed(system),
    window=window_of(found),
    tokens_per_batch=tokens_per_batch,
  )

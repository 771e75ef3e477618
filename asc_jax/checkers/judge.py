"""A language model as sentence judge: Yes or No, whichever decoder it is.

P(supported) is yes / (yes + no), where each is the probability of all first answer
tokens that read so. The prompt is an editable text file with {document} and
{sentence}; prompts/judge.txt is this project's own.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asc_jax.checkers import base, prompt_files
from asc_jax.checkers.shared_document import Messages, SharedDocument, reading, window_of
from asc_jax.models import adapters, checkpoints
from asc_jax.models.decoder import DecoderConfig
from asc_jax.types import UserError

_FIELDS = ("{document}", "{sentence}")


class Judge(SharedDocument):
  """See the module's docstring."""

  name = "judge"


class Question(NamedTuple):
  """How a model is asked, before its weights are read.

  Attributes:
    template: the prompt's text.
    tokenizer: the model's.
    config: the model's.
    messages: the conversation about (document, sentence).
    yes, no: bool[V], which first answer tokens read so.
    window: tokens of a prompt that the model was made for, at most.
  """

  template: str
  tokenizer: Any
  config: DecoderConfig
  messages: Callable[[str, str], Messages]
  yes: jax.Array
  no: jax.Array
  window: int


def margin(yes: jax.Array, no: jax.Array, logits: jax.Array) -> jax.Array:
  """logits [..., V] -> the log-odds of yes, of what reads yes or no; both are bool[V]."""
  say_yes = jax.nn.logsumexp(logits, axis=-1, where=yes)
  say_no = jax.nn.logsumexp(logits, axis=-1, where=no)
  return say_yes - say_no


def yes_or_no(yes: jax.Array, no: jax.Array, logits: jax.Array) -> jax.Array:
  """logits [..., V] -> P(yes) of what reads yes or no."""
  return jax.nn.sigmoid(margin(yes, no, logits))


def question(
  path: str, prompt: str | None = None, field: str = "config.checker.prompt"
) -> Question:
  """Reads the prompt, which `field` named, and the tokenizer; the rest is as in `load`."""
  template = prompt_files.read(prompt, "judge.txt", field)
  for place in _FIELDS:
    if template.count(place) != 1:
      raise UserError(
        f"checker judge: the prompt has {template.count(place)} times {place}; once is right"
      )
  tokenizer = checkpoints.load_tokenizer(path)
  for word in ("Yes", "No"):
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
      raise UserError(
        f"checker judge: {word!r} is {len(ids)} tokens of {path}'s tokenizer; a verdict is read "
        "from one, so take another judge"
      )
  found = checkpoints.check(path)
  size = found.config.vocab_size
  yes, no = (jnp.asarray(reading(tokenizer, size, word)) for word in ("yes", "no"))

  def messages(document: str, sentence: str):
    values = {"{document}": document, "{sentence}": sentence}
    text = re.sub("|".join(_FIELDS), lambda m: values[m.group()], template)
    return [{"role": "user", "content": text}]

  return Question(template, tokenizer, found.config, messages, yes, no, window_of(found))


def load(
  path: str | None = None,
  *,
  prompt: str | None = None,
  adapter: str | None = None,
  dtype: str = "float32",
  mesh=None,
  tokens_per_batch: int = 256,
) -> Judge:
  """Reads a decoder and its prompt.

  Args:
    path: what `models.checkpoints.load` takes.
    prompt: file with {document} and {sentence}; None for this project's own.
    adapter: folder of a LoRA adapter in peft's layout, None for the model as it is.
    dtype: of weights and computation.
    mesh: where the weights go.
    tokens_per_batch: sentence tokens that one call extends.
  """
  path = base.require_path(Judge.name, path)
  asked = question(path, prompt)
  extra = None if adapter is None else adapters.read(adapter, asked.config)
  state, _, hashed = base.read_decoder(path, dtype=dtype, mesh=mesh)
  digest = hashed(asked.template)
  if extra is not None:
    state = adapters.attach(state, extra, mesh)
    scale = f"{extra.lora.rank} {extra.lora.alpha}"
    digest = hashlib.sha256((digest + base.file_hash(extra.path) + scale).encode()).hexdigest()[:16]
  return Judge(
    state,
    asked.tokenizer,
    asked.messages,
    lambda logits: yes_or_no(asked.yes, asked.no, logits),
    weights_hash=digest,
    window=asked.window,
    tokens_per_batch=tokens_per_batch,
  )


@functools.wraps(load)
def load_gemma(path: str | None = None, **options) -> Judge:
  """The paper's sentence judge, Gemma-4-31B; any other model is refused under this name."""
  path = base.require_path("gemma_judge", path)
  config = checkpoints.check(path).config
  if not config.family.startswith("gemma4") or (config.num_layers, config.width) != (60, 5376):
    raise UserError(
      f"checker gemma_judge is the paper's Gemma-4-31B, and {path} is a {config.family} of "
      f"{config.num_layers} layers; a stand-in is named judge"
    )
  judge = load(path, **options)
  judge.name = "gemma_judge"
  return judge

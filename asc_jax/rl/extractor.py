"""A language model that writes the facts of sentences, through the policy's sampler.

Requests begin with the same instruction. It is prefilled once for all requests ever
made, and each request's rest, a sentence, is fed as the beginning of an answer.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
from ml_collections import config_dict

from asc_jax import sharding
from asc_jax.checkers.shared_document import common_prefix
from asc_jax.corver import triplets, verify
from asc_jax.models import checkpoints, decoder
from asc_jax.rl import sampler
from asc_jax.text import prompts
from asc_jax.types import Prompts

ROWS = 32  # requests a call
REST = 128  # rests are padded to multiples of this: few sentences are longer, so most share a call


class Generator:
  """Requests to greedy completions.

  Args:
    state: the decoder, frozen.
    tokenizer: its own; with a chat template, a request is a user's turn.
    probe: a request like those to come, which tells what they share.
    stop_ids: tokens that end a completion.
    max_tokens: of a completion.
    mesh: where `state` lies; None: wherever jax put it.
  """

  def __init__(
    self,
    state: decoder.DecoderState,
    tokenizer,
    probe: str,
    *,
    stop_ids: tuple[int, ...],
    max_tokens: int,
    mesh: jax.sharding.Mesh | None = None,
  ):
    self.mesh = mesh
    self.state, self.tokenizer = state, tokenizer
    self.stop_ids, self.max_tokens = stop_ids, max_tokens
    self._probe = self._encode(probe)
    self._prefilled = functools.cache(self._prefill)

  def __call__(self, requests: list[str]) -> list[str]:
    """One completion a request; whatever else is asked, a request's is the same."""
    groups: dict[tuple[int, int], list[int]] = {}
    ids = [self._encode(request) for request in requests]
    for i, own in enumerate(ids):
      shared = common_prefix(own, self._probe)
      groups.setdefault((shared, -(-(len(own) - shared) // REST) * REST), []).append(i)
    texts = [""] * len(requests)
    for (shared, width), members in groups.items():
      for at in range(0, len(members), ROWS):
        batch = members[at : at + ROWS]
        with sharding.mesh_in_force(self.mesh):
          written = self._complete([ids[i][shared:] for i in batch], shared, width)
        for i, text in zip(batch, written, strict=True):
          texts[i] = text
    return texts

  def _encode(self, request: str) -> list[int]:
    if self.tokenizer.chat_template:
      return prompts.encode_chat(self.tokenizer, [{"role": "user", "content": request}])
    return prompts.encode_plain(self.tokenizer, request)

  def _prefill(self, shared: int) -> tuple[Prompts, decoder.Prefix]:
    prompt = Prompts(
      np.array([self._probe[:shared]], np.int32),
      np.array([shared], np.int32),
      np.zeros(1, np.uint32),
    )
    return prompt, jax.jit(decoder.prefill)(self.state, prompt.tokens, prompt.lengths)

  def _complete(self, rests: list[list[int]], shared: int, width: int) -> list[str]:
    filled = rests + [rests[-1]] * (ROWS - len(rests))  # every call has one shape
    tokens = np.zeros((1, ROWS, width), np.int32)
    for row, rest in zip(tokens[0], filled, strict=True):
      row[: len(rest)] = rest
    settings = sampler.Sampling(
      ROWS, width + self.max_tokens, temperature=0.0, stop_ids=self.stop_ids
    )
    prompt, prefix = self._prefilled(shared)
    lengths = np.array([list(map(len, filled))], np.int32)
    starts = sampler.Starts(tokens, lengths)
    drawn = sampler.sample_after(self.state, prefix, prompt, jax.random.key(0), settings, starts)
    found, ends = np.asarray(drawn.tokens[0]), np.asarray(drawn.lengths[0])
    texts = []
    for row, rest, end in zip(found, rests, ends, strict=False):  # not the copies
      written = row[len(rest) : min(int(end), len(rest) + self.max_tokens)]
      texts.append(self.tokenizer.decode(written.tolist(), skip_special_tokens=True))
    return texts


def load(
  config: config_dict.ConfigDict, *, dtype: str, mesh: jax.sharding.Mesh | None
) -> Generator:
  """The generator that the config's section `corver` describes.

  Raises:
    UserError: naming the file or field that is wrong.
  """
  found = checkpoints.check(config.extractor)
  instruction = verify.instruction(config)
  state, tokenizer = checkpoints.load(config.extractor, dtype=dtype, param_dtype=dtype, mesh=mesh)
  return Generator(
    state,
    tokenizer,
    triplets.extractor_prompt("※", instruction),
    stop_ids=prompts.stop_ids(tokenizer, found.generation),
    max_tokens=config.extractor_tokens,
    mesh=mesh,
  )

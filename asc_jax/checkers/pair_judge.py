"""A language model that compares two whole answers to a question.

The rubric is an editable text file with {question} and {passages}, then {first} and {second};
prompts/rubric_*.txt are this project's own. What stands before the answers is read once for
all pairs of a question and for both orders. The verdict is the likeliest first answer token
that reads A, B or C (equally good).
"""

from __future__ import annotations

import importlib.resources
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asc_jax.checkers import base, prompt_files
from asc_jax.checkers.shared_document import ChatReader, reading, window_of
from asc_jax.data.documents import document
from asc_jax.models import checkpoints
from asc_jax.types import Passage, UserError

LETTERS = ("A", "B", "C")
VERDICTS = ("first", "second", "tie")
_FIELDS = ("{question}", "{passages}", "{first}", "{second}")


class Shown(NamedTuple):
  """Two answers in the order in which they are shown."""

  question: str
  passages: tuple[Passage, ...]
  first: str
  second: str


class Rubric(NamedTuple):
  """A rubric's name, and its text up to the answers and from there on."""

  name: str
  head: str
  tail: str


class PairJudge(ChatReader):
  """See the module's docstring; made by `load`.

  Attributes:
    rubric: what it is asked.
    weights_hash: of the checkpoint and the rubric.
  """

  name = "pair_judge"

  def __init__(self, *others, rubric: Rubric, weights_hash: str, **options):
    super().__init__(*others, **options)
    self.rubric = rubric
    self.weights_hash = weights_hash

  def compare(self, pairs: Sequence[Shown]) -> list[str | None]:
    """ "first", "second" or "tie" for each pair; None where the answers do not fit."""
    heads, tails = [], []
    for pair in pairs:
      values = {"{question}": pair.question, "{passages}": document(pair.passages)}
      heads.append(fill(self.rubric.head, values))
      tails.append(fill(self.rubric.tail, {"{first}": pair.first, "{second}": pair.second}))
    return [None if found is None else verdict(found) for found in self.read(heads, tails)]


def fill(template: str, values: Mapping[str, str]) -> str:
  """The template with its fields exchanged, whatever the values hold.

  >>> fill("{a} and {b}", {"{a}": "{b}", "{b}": "c"})
  '{b} and c'
  """
  return re.sub("|".join(map(re.escape, values)), lambda match: values[match.group()], template)


def verdict(scores: np.ndarray) -> str:
  """From float[3], how likely A, B and C are; equal ones are a tie.

  >>> verdict(np.array([-1.0, -2.0, -3.0])), verdict(np.array([-1.0, -1.0, -3.0]))
  ('first', 'tie')
  """
  best = np.flatnonzero(scores == scores.max())
  return VERDICTS[best[0]] if len(best) == 1 else "tie"


def rubrics() -> list[str]:
  """Names of the packaged rubrics."""
  folder = importlib.resources.files("asc_jax.checkers").joinpath("prompts")
  found = (re.fullmatch(r"rubric_(\w+)\.txt", path.name) for path in folder.iterdir())
  return sorted(match[1] for match in found if match)


def read_rubric(rubric: str) -> Rubric:
  """A rubric by its name, of `rubrics()`, or its file.

  Raises:
    UserError: it does not show the question and the passages, then the two answers.
  """
  known = rubric in rubrics()
  text = prompt_files.read(None if known else rubric, f"rubric_{rubric}.txt", "--rubrics")
  at = [text.find(field) for field in _FIELDS]
  if [text.count(field) for field in _FIELDS] != [1] * 4 or max(at[:2]) > min(at[2:]):
    raise UserError(
      f"rubric {rubric}: it has {', '.join(_FIELDS)} once each, the answers after the others"
    )
  name = rubric if known else pathlib.Path(rubric).stem
  return Rubric(name, text[: min(at[2:])], text[min(at[2:]) :])


def load(
  path: str,
  names: Sequence[str],
  *,
  dtype: str = "float32",
  mesh: jax.sharding.Mesh | None = None,
) -> list[PairJudge]:
  """One decoder, as a judge by each of some rubrics.

  Args:
    path: what `models.checkpoints.load` takes.
    names: of rubrics, see `read_rubric`.
    dtype: of weights and computation.
    mesh: where the weights go.

  Raises:
    UserError: before weights load, where a rubric or the tokenizer does not serve.
  """
  asked = [read_rubric(name) for name in names]
  tokenizer = checkpoints.load_tokenizer(path)
  for letter in LETTERS:
    if len(tokenizer(letter, add_special_tokens=False)["input_ids"]) != 1:
      raise UserError(f"{letter!r} is no single token of {path}'s tokenizer; take another judge")
  window = window_of(checkpoints.check(path))
  state, _, hashed = base.read_decoder(path, dtype=dtype, mesh=mesh)
  says = jnp.asarray(
    np.stack([reading(tokenizer, state.config.vocab_size, letter.lower()) for letter in LETTERS])
  )  # bool[3, V]
  return [
    PairJudge(
      state,
      tokenizer,
      lambda left, right: [{"role": "user", "content": left + right}],
      lambda logits: jax.nn.logsumexp(logits[..., None, :], axis=-1, where=says),
      rubric=rubric,
      weights_hash=hashed(rubric.head + rubric.tail),
      window=window,
    )
    for rubric in asked
  ]

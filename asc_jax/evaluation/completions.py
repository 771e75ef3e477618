"""CorVer's evaluation: what a policy answers from memory, and what the corpus says of it.

One record a completion, as records.py's are one an answer; every table and figure of
`report --paper=corver` is made from these lines alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypedDict

import numpy as np
from ml_collections import config_dict

from asc_jax.corver import reward, verify
from asc_jax.evaluation import policy, records, tables
from asc_jax.rl import corver_trainer, rollouts


class Statement(TypedDict):
  """completion[start:end], a sentence of either block."""

  start: int
  end: int
  reward: float
  triplet: list[str]  # head, relation, tail; empty where no fact was found
  words: list[str]  # looked up
  occurrences: int | None  # None where nothing was looked up
  approximate: bool  # a frequent word was sampled


class Completion(TypedDict):
  """One completion, thinking included."""

  run: str
  method: str
  step: int  # updates before it was drawn; 0 is the base model
  corpus: str
  id: str  # the question's, unique within the corpus
  question: str
  prompt: str  # exactly what the model was fed, special tokens included
  aliases: list[str]  # right answers
  popularity: int | None  # of the subject (PopQA)
  answer_index: int
  completion: str
  answer: str  # its answer block
  tokens: int
  finished: bool  # False where the token limit cut it off
  outcome: str  # correct, wrong or refused
  formatted: bool  # both blocks, closed and in order
  sentences: list[Statement]
  sampling: records.Sampling


@dataclasses.dataclass(frozen=True)
class Evaluator(policy.Evaluator):
  """Answers questions and writes a `Completion` each; `checker` is not used.

  Attributes:
    verifier: rewards the sentences.
  """

  schema: ClassVar[Any] = Completion

  verifier: verify.Verifier = corver_trainer.no_verdicts

  @classmethod
  def of(cls, trainer) -> Evaluator:
    return dataclasses.replace(super().of(trainer), verifier=trainer.verifier)

  @staticmethod
  def terminal(answers: Mapping[str, Sequence[Completion]]) -> str:
    found = [summarise(rows) for rows in answers.values()]
    rows = [
      [label, *(tables.number(getattr(summary, name), decimals) for summary in found)]
      for name, (label, decimals) in COLUMNS.items()
    ]
    return tables.aligned(["", *answers], rows)

  def _describe(self, question: rollouts.Question) -> dict:
    example = question.example
    return {
      "corpus": example.corpus,
      "id": example.id,
      "question": example.question,
      "prompt": question.prompt,
      "aliases": list(example.aliases),
      "popularity": dict(example.extra).get("s_pop"),
    }

  def _instruments(self) -> dict:
    return {}

  def _batch(self, model, start: int, step: int, run: str) -> Iterator[Completion]:
    group, host = self._draw(model, start)
    found, _ = corver_trainer.read(self.tokenizer, group, host, self.config, self.verifier)
    for b, g in np.ndindex(len(group), self.sampling.group_size):
      own = found[b][g]
      yield Completion(  # type: ignore[typeddict-item]
        **self._common(run, step),
        **self._describe(group[b]),
        answer_index=g,
        completion=own.text,
        answer=own.answer(),
        tokens=int(host.lengths[b, g]),
        finished=bool(host.finished[b, g]),
        outcome=own.outcome,
        formatted=own.blocks.well_formed,
        sentences=list(statements(own)),
      )


def evaluator_of(config: config_dict.ConfigDict) -> type[policy.Evaluator]:
  """The class that evaluates a config's policy."""
  return Evaluator if config.corver.on else policy.Evaluator


def statements(completion: reward.Completion) -> Iterator[Statement]:
  """The sentences of a completion as its record holds them."""
  for (start, end), verdict in zip(completion.spans, completion.verdicts, strict=True):
    yield Statement(
      start=start,
      end=end,
      reward=verdict.reward,
      triplet=list(verdict.triplet or ()),
      words=list(verdict.words),
      occurrences=verdict.occurrences,
      approximate=verdict.approximate,
    )


COLUMNS = {  # of Summary: heading, decimals
  "correct": ("correct %", 1),
  "refused": ("not attempted %", 1),
  "formatted": ("format %", 1),
  "tokens": ("tokens", 1),
  "questions": ("questions", 0),
}


class Summary(NamedTuple):
  """Means over completions; rates in %."""

  questions: int
  correct: float
  refused: float
  formatted: float
  tokens: float


def summarise(rows: Sequence[Completion]) -> Summary:
  """Accuracy by alias match, not attempted, format and length of some completions."""

  def rate(values: Iterable[bool]) -> float:
    return 100 * float(np.mean([*values]))

  return Summary(
    questions=len({(r["corpus"], r["id"]) for r in rows}),
    correct=rate(r["outcome"] == "correct" for r in rows),
    refused=rate(r["outcome"] == "refused" for r in rows),
    formatted=rate(r["formatted"] for r in rows),
    tokens=float(np.mean([r["tokens"] for r in rows])),
  )

"""A policy's answers to evaluation questions, as records."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np
from absl import logging
from ml_collections import config_dict

from asc_jax.checkers.base import Checker
from asc_jax.data import files
from asc_jax.data.answerable import answerable
from asc_jax.evaluation import metrics, records, tables
from asc_jax.models import decoder
from asc_jax.rl import loop, rollouts, sampler, update
from asc_jax.text import answers as answers_lib
from asc_jax.text import copying, refusals
from asc_jax.types import Rollout, Scores, Sentences, UserError


@dataclasses.dataclass(frozen=True)
class Evaluator:
  """What evaluation needs besides the policy's weights.

  Attributes:
    tokenizer: the policy's.
    checker: the reward instrument.
    questions: prepared evaluation questions.
    config: a whole config; reads eval, rollout, text, credit, advantage, checker.
    mesh: where the policy lives.
    stop_ids: tokens that end an answer.
    others: further instruments that score every sentence.
    run_label: the label stored in each record; None: the folder two above the records file.
    method: how the policy was trained, stored in each record; None: config.method.
  """

  schema: ClassVar[Any] = records.Record

  tokenizer: object
  checker: Checker
  questions: Sequence[rollouts.Question]
  config: config_dict.ConfigDict
  mesh: jax.sharding.Mesh
  stop_ids: tuple[int, ...]
  others: Sequence[Checker] = ()
  run_label: str | None = None
  method: str | None = None

  @classmethod
  def of(cls, trainer: loop.Loop) -> Self:
    """The evaluator of a run, on the questions that it reads for evaluation."""
    return cls(
      trainer.tokenizer,
      trainer.checker,
      trainer.eval_work.questions,
      trainer.config,
      trainer.mesh,
      trainer.stop_ids,
    )

  @staticmethod
  def terminal(answers: Mapping[str, Sequence[Any]]) -> str:
    """The table of some sets of records, by heading."""
    return tables.terminal({name: metrics.summarise(rows) for name, rows in answers.items()})

  @property
  def sampling(self) -> sampler.Sampling:
    config = self.config
    return sampler.Sampling(
      group_size=config.eval.answers,
      max_tokens=config.eval.max_tokens or config.rollout.max_tokens,
      temperature=config.eval.temperature,
      stop_ids=self.stop_ids,
    )

  def read(self, path: pathlib.Path) -> list[Any]:
    """The records of a file that `run` wrote."""
    return records.read(path, self.schema)

  def run(self, model: decoder.DecoderState, step: int, path: pathlib.Path) -> list[Any]:
    """Answers every question; the file appears when all are answered.

    Until then the records lie in PATH.partial, from which a run that was killed goes on:
    whole batches are kept, so that it answers the others in the batches, hence with the
    bits, of a run that was left alone.

    Args:
      model: the policy.
      step: updates before it, stored in each record.
      path: the JSONL file; an existing one is read instead of sampling again.
    """
    if path.exists():
      return self.read(path)
    if not self.questions:
      return []
    run = self.run_label or path.parent.parent.name
    partial = path.with_suffix(".partial")
    rows = self._kept(partial, step, run)
    for start in range(len(rows) // self.config.eval.answers, len(self.questions), self._size):
      new = list(self._batch(model, start, step, run))
      records.append(partial, new, self.schema)
      rows += new
    partial.rename(path)
    return rows

  @property
  def _size(self) -> int:
    return self.config.data.batch_size

  def _kept(self, partial: pathlib.Path, step: int, run: str) -> list[Any]:
    """The whole batches of a file that a killed run left; anything else is removed."""
    if not partial.exists():
      return []
    files.cut_tail(partial)
    try:
      found = self.read(partial)
    except UserError as error:
      logging.info("%s; the questions are answered again", error)
      found = []
    batch = self._size * self.config.eval.answers
    rows = found if len(found) == self._answers else found[: len(found) // batch * batch]
    if not all(self._is_ours(place, row, run, step) for place, row in enumerate(rows)):
      logging.info("%s is of another evaluation; the questions are answered again", partial)
      rows = []
    partial.unlink()
    records.append(partial, rows, self.schema)
    return rows

  @property
  def _answers(self) -> int:
    return len(self.questions) * self.config.eval.answers

  def _is_ours(self, place: int, row: Any, run: str, step: int) -> bool:
    """Whether this evaluation would have written the row at this place, as far as can be told."""
    if place >= self._answers:
      return False
    question, index = divmod(place, self.config.eval.answers)
    wanted = {**self._describe(self.questions[question]), **self._common(run, step)}
    wanted["answer_index"] = index
    return all(row[name] == value for name, value in wanted.items())

  def _describe(self, question: rollouts.Question) -> dict:
    """The fields that a question decides."""
    return describe_question(question)

  def _common(self, run: str, step: int) -> dict:
    """The fields that all records share."""
    sampling = self.sampling
    return {
      "run": run,
      "method": self.method or self.config.method,
      "step": step,
      "sampling": {
        "answers": sampling.group_size,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": self.config.eval.seed,
      },
      **self._instruments(),
    }

  def _instruments(self) -> dict:
    """The fields that name who scored."""
    return {
      "reward_instrument": self.checker.name,
      "instruments": {c.name: c.weights_hash for c in (self.checker, *self.others)},
    }

  def _draw(self, model, start: int) -> tuple[list[rollouts.Question], Rollout]:
    """Samples answers to the questions from `start` on that one batch holds."""
    group = list(self.questions[start : start + self._size])
    key = jax.random.key(self.config.eval.seed)
    return group, sampler.sample_questions(
      model, group, key, self.sampling, data=self.config.data, mesh=self.mesh
    )

  def _batch(self, model, start: int, step: int, run: str) -> Iterator[Any]:
    """Samples and scores a batch of questions."""
    config, sampling = self.config, self.sampling
    group, host = self._draw(model, start)
    found = rollouts.read_answers(self.tokenizer, group, host, config.text)
    bucket = rollouts.sentence_bucket(max(len(a.spans) for row in found for a in row))
    packed = rollouts.pack_sentences(found, sampling.max_tokens, config.text.empty_answer, bucket)
    instruments = (self.checker, *self.others)
    scores = [rollouts.score(checker, group, found, bucket) for checker in instruments]
    credit, advantage = credit_and_advantage(packed, scores[0], config)
    for index in np.ndindex(len(group), sampling.group_size):
      question, answer = group[index[0]], found[index[0]][index[1]]
      sentences = describe_sentences(
        answer,
        [p.text for p in question.example.passages],
        credit[index],
        None if advantage is None else advantage[index],
        {
          checker.name: (checker.threshold, one.supported[index], one.vacuous[index])
          for checker, one in zip(instruments, scores, strict=True)
        },
        config.text.copy_ngram,
      )
      yield records.Record(  # type: ignore[typeddict-item]
        **self._common(run, step),
        **describe_question(question),
        **describe_answer(question, answer, config.text.copy_ngram),
        answer_index=index[1],
        tokens=int(host.lengths[index]),
        sentences=sentences,
      )


def credit_and_advantage(packed: Sentences, scores: Scores, config):
  """NumPy float32[B, G, S] credit, NaN where unscored, and advantages of two answers or more."""
  settings = update.objective(config)
  packed = update.scored(packed, scores, settings)
  credit, _ = update.credits(packed, scores, settings)
  shown = np.where(packed.mask, credit, np.nan)
  if packed.mask.shape[1] < 2:
    return shown, None
  return shown, np.asarray(update.unit_advantages(packed, credit, settings)[0])


def describe_question(question: rollouts.Question) -> dict:
  example = question.example
  return {
    "corpus": example.corpus,
    "id": example.id,
    "question": example.question,
    "prompt": question.prompt,
    "passages": [{"title": p.title, "text": p.text} for p in example.passages],
    "answerable": answerable(example),
  }


def describe_answer(question: rollouts.Question, answer: rollouts.Answer, ngram: int) -> dict:
  example = question.example
  texts = [p.text for p in example.passages]
  names = ("start", "end", "passage", "passage_start", "passage_end")
  em = None
  if example.qa_pairs:
    em = answers_lib.asqa_exact_match(answer.text, example.qa_pairs)
  elif example.aliases:
    em = float(answers_lib.alias_match(answer.text, example.aliases))
  return {
    "answer": answer.text,
    "finished": answer.finished,
    "words": len(answer.copy_mask),
    "copy": answer.copy_share,
    "declines": refusals.declines(answer.text),
    "em": em,
    "matches": [
      dict(zip(names, map(int, m), strict=True))
      for m in copying.matches(answer.text, texts, n=ngram)
    ],
  }


def describe_sentences(answer, passages, credit, advantage, scores, ngram) -> list[dict]:
  """The record's sentences; `scores` is {instrument: (threshold, supported[S], vacuous[S])}."""
  rows = []
  shares = copying.sentence_shares(answer.text, answer.spans, passages, n=ngram)
  for s, (start, end) in enumerate(answer.spans):
    last = s == len(answer.spans) - 1
    rows.append(
      {
        "start": start,
        "end": end,
        "copied": bool(answer.copied[s]),
        "copy_share": float(shares[s]),
        "refusal": refusals.is_refusal(answer.text[start:end]),
        "complete": answer.finished or not last,
        "credit": number(credit[s]),
        "advantage": None if advantage is None else float(advantage[s]),
        "scores": {
          name: {
            "supported": number(supported[s]),
            "vacuous": number(vacuous[s]),
            "threshold": threshold,
          }
          for name, (threshold, supported, vacuous) in scores.items()
        },
      }
    )
  return rows


def number(value: np.ndarray) -> float | None:
  """A score, None where it was not taken."""
  return None if np.isnan(value) else float(value)

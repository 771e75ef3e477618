"""A policy's answers to evaluation questions, as records."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from ml_collections import config_dict

from asc_jax import sharding
from asc_jax.checkers.base import Checker
from asc_jax.data.answerable import answerable
from asc_jax.evaluation import records
from asc_jax.models import decoder
from asc_jax.rl import rollouts, sampler, update
from asc_jax.text import answers as answers_lib
from asc_jax.text import copying, refusals
from asc_jax.types import Rollout, Scores, Sentences


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
  """

  tokenizer: object
  checker: Checker
  questions: Sequence[rollouts.Question]
  config: config_dict.ConfigDict
  mesh: jax.sharding.Mesh
  stop_ids: tuple[int, ...]

  @property
  def sampling(self) -> sampler.Sampling:
    config = self.config
    return sampler.Sampling(
      group_size=config.eval.answers,
      max_tokens=config.eval.max_tokens or config.rollout.max_tokens,
      temperature=config.eval.temperature,
      stop_ids=self.stop_ids,
    )

  def run(self, model: decoder.DecoderState, step: int, path: pathlib.Path) -> list[records.Record]:
    """Answers every question and writes the records, whole or not at all.

    Args:
      model: the policy.
      step: updates before it, stored in each record.
      path: the JSONL file; an existing one is read instead of sampling again.
    """
    if path.exists():
      return records.read(path)
    if not self.questions:
      return []
    rows = list(self.answer(model, step, path.parent.parent.name))
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    records.append(partial, rows)
    partial.rename(path)
    return rows

  def answer(self, model: decoder.DecoderState, step: int, run: str) -> Iterator[records.Record]:
    """Samples and scores, a batch of questions at a time."""
    size = self.config.data.batch_size
    for start in range(0, len(self.questions), size):
      group = list(self.questions[start : start + size])
      filled = group + [group[-1]] * (size - len(group))  # every batch has one shape
      yield from self._batch(model, group, filled, step, run)

  def _batch(self, model, group, filled, step, run):
    config, sampling = self.config, self.sampling
    prompt = rollouts.batch_prompts(filled, config.data.prompt_buckets)
    key = jax.random.key(config.seed)
    with jax.set_mesh(self.mesh):
      drawn = sampler.sample(model, sharding.spread_questions(prompt, self.mesh), key, sampling)
    host = Rollout(*map(np.asarray, drawn))
    found = rollouts.read_answers(self.tokenizer, group, host, config.text)
    bucket = rollouts.sentence_bucket(max(len(a.spans) for row in found for a in row))
    packed = rollouts.pack_sentences(found, sampling.max_tokens, config.text.empty_answer, bucket)
    scores = rollouts.score(self.checker, group, found, bucket)
    credit, advantage = credit_and_advantage(packed, scores, config)
    for index in np.ndindex(len(group), sampling.group_size):
      question, answer = group[index[0]], found[index[0]][index[1]]
      yield {
        "run": run,
        "method": config.method,
        "step": step,
        **describe_question(question),
        "answer_index": index[1],
        **describe_answer(question, answer, config.text.copy_ngram),
        "tokens": int(host.lengths[index]),
        "sampling": {
          "temperature": sampling.temperature,
          "top_k": sampling.top_k,
          "top_p": sampling.top_p,
          "max_tokens": sampling.max_tokens,
          "seed": config.seed,
        },
        "sentences": describe_sentences(
          answer,
          [p.text for p in question.example.passages],
          credit[index],
          None if advantage is None else advantage[index],
          {self.checker.name: (scores.supported[index], scores.vacuous[index])},
          config,
        ),
        "reward_instrument": self.checker.name,
        "instruments": {self.checker.name: self.checker.weights_hash},
      }


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


def describe_sentences(answer, passages, credit, advantage, scores, config) -> list[dict]:
  """The record's sentences; `scores` is {instrument: (supported[S], vacuous[S])}."""
  rows = []
  shares = copying.sentence_shares(answer.text, answer.spans, passages, n=config.text.copy_ngram)
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
            "threshold": config.checker.threshold,
          }
          for name, (supported, vacuous) in scores.items()
        },
      }
    )
  return rows


def number(value: np.ndarray) -> float | None:
  """A score, None where it was not taken."""
  return None if np.isnan(value) else float(value)

"""The host's half of a batch: questions to prompts, answers to sentences and scores."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from ml_collections import config_dict

from asc_jax.checkers.base import Checker
from asc_jax.data.documents import document
from asc_jax.text import alignment, copying, prompts, refusals, sentences
from asc_jax.types import Example, Prompts, Rollout, Scores, Sentences, UserError


class Question(NamedTuple):
  """An example with its prompt; its passages are those that fitted the prompt."""

  example: Example
  tokens: tuple[int, ...]
  prompt: str  # with its special tokens


class Answer(NamedTuple):
  """One sampled answer, split and aligned.

  `spans` are character spans of `text`; an empty answer has none, and `ids` then
  point at the pseudo-sentence 0 (config.text.empty_answer).
  """

  text: str
  spans: list[tuple[int, int]]
  ids: np.ndarray  # int32[tokens], -1 on tokens of no sentence
  copied: list[bool]
  copy_mask: np.ndarray  # bool[words]
  finished: bool

  @property
  def copy_share(self) -> float:
    """Share of the words inside verbatim matches; 0 for an answer without words."""
    return float(self.copy_mask.mean()) if self.copy_mask.size else 0.0

  def sentences(self) -> list[str]:
    return [self.text[start:end] for start, end in self.spans]


def prepare(
  tokenizer, examples: Sequence[Example], config: config_dict.ConfigDict
) -> tuple[list[Question], Counter]:
  """Makes prompts of all questions once, before any weights load.

  Returns:
    The questions that fit, and counts of what was cut or dropped, by reason.

  Raises:
    UserError: no question is left.
  """
  data, questions = config.data, []
  counts: Counter[str] = Counter()
  longest = data.prompt_buckets[-1]
  for example in examples:
    prompt = prompts.question_prompt(
      tokenizer,
      example,
      instruction=data.instruction,
      max_tokens=longest,
      overlong=data.overlong,
      system_role=data.system_role,
      max_passages=data.max_passages,
    )
    if prompt is None:
      counts[f"dropped: prompt over {longest} tokens"] += 1
      continue
    counts["passages cut to fit the prompt"] += prompt.cut
    questions.append(Question(prompt.example, tuple(prompt.ids), prompt.text))
  if not questions:
    raise UserError(
      f"no question of corpus {data.corpus} fits config.data.prompt_buckets={data.prompt_buckets}; "
      "raise the largest bucket"
    )
  return questions, +counts


def batch_prompts(questions: Sequence[Question], buckets: Sequence[int]) -> Prompts:
  """Pads prompts to the smallest bucket that holds them all: int32[B, P]."""
  lengths = np.array([len(q.tokens) for q in questions], np.int32)
  width = next(b for b in buckets if b >= lengths.max())
  tokens = np.zeros((len(questions), width), np.int32)
  for row, question in zip(tokens, questions, strict=True):
    row[: len(question.tokens)] = question.tokens
  digests = [hashlib.sha256(q.example.id.encode()).digest() for q in questions]
  keys = np.array([int.from_bytes(d[:4], "little") for d in digests], np.uint32)
  return Prompts(tokens, lengths, keys)


def pad_answers(
  answers: Sequence[Sequence[Sequence[int]]], group_size: int, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
  """Token ids of B questions' answers as arrays; a question with fewer than G gets empty ones.

  Returns:
    int32[B, G, T] tokens, zeros after each answer, and bool[B, G, T], true on its tokens.
  """
  tokens = np.zeros((len(answers), group_size, max_tokens), np.int32)
  mask = np.zeros(tokens.shape, bool)
  for b, group in enumerate(answers):
    for g, ids in enumerate(group):
      tokens[b, g, : len(ids)] = ids
      mask[b, g, : len(ids)] = True
  return tokens, mask


def read_answer(
  tokenizer, ids: np.ndarray, finished: bool, passages: Sequence[str], text: config_dict.ConfigDict
) -> Answer:
  """Decodes one answer, splits it and assigns its tokens to sentences.

  Args:
    tokenizer: the policy's.
    ids: int32[tokens], the end-of-answer token included.
    finished: False where the token limit cut the answer off.
    passages: the texts to find verbatim matches in.
    text: the config's section `text`.
  """
  answer, token_spans = alignment.decode(tokenizer, ids.tolist())
  spans = sentences.split(answer)
  if spans:
    token_ids = alignment.sentence_ids(token_spans, spans, text=answer, trailing=text.trailing)
  else:
    token_ids = np.full(len(ids), 0 if text.empty_answer == "sentence" else -1, np.int32)
  return Answer(
    text=answer,
    spans=spans,
    ids=token_ids,
    copied=copying.sentences_copied(
      answer, spans, passages, text.copy_threshold, n=text.copy_ngram
    ),
    copy_mask=copying.copy_mask(answer, passages, n=text.copy_ngram),
    finished=finished,
  )


def read_answers(
  tokenizer, questions: Sequence[Question], rollout: Rollout, text: config_dict.ConfigDict
) -> list[list[Answer]]:
  """B lists of G answers; `rollout` holds NumPy arrays."""
  return [
    [
      read_answer(
        tokenizer,
        rollout.tokens[b, g, : rollout.lengths[b, g]],
        bool(rollout.finished[b, g]),
        [p.text for p in question.example.passages],
        text,
      )
      for g in range(rollout.tokens.shape[1])
    ]
    for b, question in enumerate(questions)
  ]


def sentence_bucket(count: int) -> int:
  """S: the next power of two, at least 4, so that few shapes compile."""
  return max(4, 1 << max(count - 1, 0).bit_length())


def pack_sentences(
  answers: Sequence[Sequence[Answer]], max_tokens: int, empty_answer: str, bucket: int
) -> Sentences:
  """Sentence ids and flags as arrays; see types.Sentences for the shapes."""
  shape = (len(answers), len(answers[0]))
  packed = Sentences(
    ids=np.full((*shape, max_tokens), -1, np.int32),
    mask=np.zeros((*shape, bucket), bool),
    pseudo=np.zeros((*shape, bucket), bool),
    complete=np.ones((*shape, bucket), bool),
    copied=np.zeros((*shape, bucket), bool),
    copy_share=np.zeros(shape, np.float32),
  )
  for index in np.ndindex(shape):
    answer = answers[index[0]][index[1]]
    count = len(answer.spans)
    packed.ids[index][: len(answer.ids)] = answer.ids
    packed.mask[index][:count] = True
    packed.copied[index][:count] = answer.copied
    packed.copy_share[index] = answer.copy_share
    if count and not answer.finished:
      packed.complete[index][count - 1] = False
    if not count and empty_answer == "sentence":
      packed.mask[index][0] = packed.pseudo[index][0] = True
  return packed


def token_mask(rollout: Rollout, ids: np.ndarray, truncated: str) -> np.ndarray:
  """bool[B, G, T]: tokens that carry loss (config.rollout.truncated)."""
  mask = np.arange(rollout.tokens.shape[2]) < np.asarray(rollout.lengths)[..., None]
  cut = ~np.asarray(rollout.finished)[..., None]  # [B, G, 1]
  if truncated == "drop":
    return mask & ~cut
  if truncated == "mask":
    return mask & ~(cut & (ids == ids.max(axis=-1, keepdims=True)))
  return mask


def score(
  checker: Checker,
  questions: Sequence[Question],
  answers: Sequence[Sequence[Answer]],
  bucket: int,
  *,
  score_copied: bool = True,
) -> Scores:
  """P(supported) of every sentence by the passages and by the question alone.

  Sentences left out by `score_copied=False`, pseudo-sentences and padding hold
  NaN. All pairs go to the checker in one call, which scores equal ones once.
  """
  shape = (len(answers), len(answers[0]), bucket)
  where, documents, claims, asked = [], [], [], []
  for b, question in enumerate(questions):
    source = document(question.example.passages)
    for g, answer in enumerate(answers[b]):
      for s, sentence in enumerate(answer.sentences()):
        if score_copied or not answer.copied[s]:
          where.append((b, g, s))
          documents.append(source)
          asked.append(question.example.question)
          claims.append(sentence)
  scores = Scores(np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32))
  if where:
    probabilities = checker.score(documents + asked, claims + claims)
    index = tuple(np.array(where).T)
    scores.supported[index], scores.vacuous[index] = np.split(probabilities, 2)
  return scores


def text_metrics(answers: Sequence[Sequence[Answer]]) -> dict[str, float]:
  """Means over answers of what only the host sees."""
  flat = [a for group in answers for a in group]
  words = sum(len(a.copy_mask) for a in flat)
  claims = sum(len(a.spans) for a in flat)
  short = sum(copying.count_short(a.text, a.spans) for a in flat)
  return {
    "text/words": words / len(flat),
    "text/refusals": float(np.mean([refusals.declines(a.text) for a in flat])),
    "text/short_sentences": short / max(claims, 1),
  }

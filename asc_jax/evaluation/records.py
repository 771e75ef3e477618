"""One JSON object an answer, one line an object: what evaluation leaves behind.

Every table, figure and page is made from these lines alone, without the models,
long after the run. The TypedDicts below are the schema: `read` checks each line
against them, so a field exists once, here.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np

from asc_jax.data import files
from asc_jax.types import UserError


class PassageRecord(TypedDict):
  """A passage as the model read it."""

  title: str
  text: str


class Match(TypedDict):
  """A verbatim run of words: answer[start:end] is passages[passage].text[passage_start:passage_end]
  but for case, white space and tokenised punctuation."""

  start: int
  end: int
  passage: int
  passage_start: int
  passage_end: int


class Score(TypedDict):
  """What one instrument says of one sentence; None where it was not scored."""

  supported: float | None  # P(supported) by the passages
  vacuous: float | None  # P(supported) by the question alone
  threshold: float  # supported and vacuous hold strictly above it


class SentenceRecord(TypedDict):
  """answer[start:end]. One of white space only is a pseudo-sentence (`is_pseudo`)."""

  start: int
  end: int
  copied: bool
  copy_share: float  # 0 to 1, words inside verbatim matches
  refusal: bool  # declines to answer
  complete: bool  # False where the token limit cut it off
  credit: float | None  # 0 or 1 under the reward instrument
  advantage: float | None  # None below two answers a question
  scores: dict[str, Score]  # by instrument


class Sampling(TypedDict):
  """How the answer was drawn; temperature 0 is greedy."""

  answers: int  # drawn for the question
  temperature: float
  top_k: int
  top_p: float
  max_tokens: int
  seed: int


class Record(TypedDict):
  """One answer."""

  run: str
  method: str
  step: int  # updates before this answer was drawn; 0 is the base model
  corpus: str
  id: str  # the question's, unique within the corpus
  question: str
  prompt: str  # exactly what the model was fed, special tokens included
  passages: list[PassageRecord]
  answer_index: int
  answer: str
  tokens: int
  finished: bool  # False where the token limit cut the answer off
  words: int
  copy: float  # 0 to 1, share of words inside verbatim matches
  declines: bool  # every sentence declines
  em: float | None  # 0 to 1, None where the corpus has no short answers
  answerable: bool | None
  sampling: Sampling
  matches: list[Match]
  sentences: list[SentenceRecord]
  reward_instrument: str
  instruments: dict[str, str]  # name to weights hash


def above(score: float, threshold: float) -> bool:
  """Whether a score passes, in float32, in which scores are made and the update compares them."""
  return bool(np.float32(score) > np.float32(threshold))


def is_pseudo(record: Record, sentence: SentenceRecord) -> bool:
  """The stand-in sentence of an answer without any; every rate leaves it out."""
  return not record["answer"][sentence["start"] : sentence["end"]].strip()


def real_sentences(record: Record) -> list[SentenceRecord]:
  """The record's sentences without pseudo-sentences."""
  return [s for s in record["sentences"] if not is_pseudo(record, s)]


_hints = functools.cache(typing.get_type_hints)


def schema_problem(value: Any, hint: Any, where: str = "") -> str | None:
  """What keeps `value` from being a `hint` (TypedDict, list, dict, T | None or plain), or None."""
  if typing.is_typeddict(hint):
    if not isinstance(value, dict):
      return f"{where or 'the line'} takes an object, not {value!r:.40}"
    fields = _hints(hint)
    prefix = f"{where}." if where else ""
    if missing := fields.keys() - value.keys():
      return f"{prefix}{min(missing)} is missing"
    if unknown := value.keys() - fields.keys():
      return f"{prefix}{min(unknown)} is not a field"
    problems = (schema_problem(value[name], fields[name], prefix + name) for name in fields)
    return next(filter(None, problems), None)
  origin, args = typing.get_origin(hint), typing.get_args(hint)
  if origin is types.UnionType:  # T | None
    return None if value is None else schema_problem(value, args[0], where)
  if origin in (list, dict):
    if not isinstance(value, origin):
      return f"{where} takes a {origin.__name__}, not {value!r:.40}"
    items = value.items() if origin is dict else enumerate(value)
    problems = (schema_problem(item, args[-1], f"{where}[{key}]") for key, item in items)
    return next(filter(None, problems), None)
  if hint is float:
    fits = type(value) in (int, float) and abs(value) <= sys.float_info.max  # no NaN either
  else:
    fits = type(value) is hint  # True is no int
  if not fits:
    return f"{where} takes a {hint.__name__}, not {value!r:.40}"
  return None


def _span_problem(record: Record) -> str | None:
  """Spans that point outside the text they index."""
  length = len(record["answer"])
  for name in ("sentences", "matches"):
    for i, span in enumerate(record[name]):  # type: ignore[literal-required]
      if not 0 <= span["start"] <= span["end"] <= length:
        return f"{name}[{i}] spans {span['start']} to {span['end']} of {length} characters"
  for i, match in enumerate(record["matches"]):
    if not 0 <= match["passage"] < len(record["passages"]):
      return f"matches[{i}].passage is {match['passage']} of {len(record['passages'])} passages"
    text = record["passages"][match["passage"]]["text"]
    if not 0 <= match["passage_start"] <= match["passage_end"] <= len(text):
      return f"matches[{i}] lies outside its passage's {len(text)} characters"
  return None


def check(value: Any, schema: Any = Record) -> str | None:
  """What keeps `value` from being a record of this schema, or None."""
  problem = schema_problem(value, schema)
  return problem or (_span_problem(value) if schema is Record else None)


def encode(record: Any, schema: Any = Record) -> str:
  """The record's line: keys in the schema's order, so that equal records are equal bytes."""
  ordered = {name: record[name] for name in _hints(schema)}
  return json.dumps(ordered, ensure_ascii=False, allow_nan=False) + "\n"


def append(path: str | os.PathLike, rows: Iterable[Any], schema: Any = Record) -> None:
  """Appends records, each line in one write, after whatever whole lines the file holds."""
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  files.cut_tail(path)
  with open(path, "ab", buffering=0) as file:
    for row in rows:
      file.write(encode(row, schema).encode())


def read(path: str | os.PathLike, schema: Any = Record) -> list[Any]:
  """All records of a file, each a `schema`.

  Raises:
    UserError: naming file, line and field of the first malformed record.
  """
  try:
    with open(path, encoding="utf-8") as file:
      return [_parse(line, f"{path}:{number}", schema) for number, line in enumerate(file, 1)]
  except OSError as error:
    raise UserError(f"{path}: cannot be read ({error.strerror}); give a records file") from None
  except UnicodeDecodeError:
    raise UserError(f"{path}: not UTF-8 text; give a records file") from None


def _parse(line: str, where: str, schema: Any) -> Any:
  try:
    record = json.loads(line)
  except json.JSONDecodeError as error:
    raise UserError(
      f"{where}: not a JSON object ({error.msg}, column {error.colno}); a line is one answer's record"
    ) from None
  except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 10,000 brackets
    raise UserError(f"{where}: not readable ({error}); a line is one answer's record") from None
  if schema is Record and isinstance(record, dict) and "completion" in record:
    raise UserError(f"{where}: a CorVer run's record; asc_jax.report reads it with --paper=corver")
  if problem := check(record, schema):
    raise UserError(
      f"{where}: {problem}; the fields are those of {schema.__name__} in "
      f"{schema.__module__.replace('.', '/')}.py"
    )
  return record

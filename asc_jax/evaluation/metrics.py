"""Every number of the tables, from records alone, as ratios of sums over a corpus.

A column is a kind of metric and the instrument that measured it. The paper's
columns name the paper's instruments; any other instrument (a stand-in) appears in
columns of its own, `Err [minilm]`, and never under a paper's name. With A the
authored (not copied) sentences of all answers, pseudo-sentences left out:

  Err      unsupported in A / A
  T5, AS   supported in A / A
  Supp     supported in A / answers
  Vac      also supported by the question alone / supported in A
  R        mean over answers of R(y), the supported share of its sentences, 0 for
           an answer without any
  Credit   sentences that earn credit, by the tests of the evaluation's own config.credit /
           sentences
  Copy     words inside verbatim five-word matches / words
  Words    words / answers
  Ref      answers whose every sentence declines / answers
  EM       mean exact match, over the answers that have one
  <5 words sentences of fewer than five words / sentences

A zero denominator, or an instrument that did not read every record, gives None,
printed as –. A sentence that an instrument which ran could not score leaves Err,
T5, AS and Vac on both sides of the ratio and is counted in `Summary.unscored`; R and
Supp, which count whole answers, are then None rather than partial.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from asc_jax.evaluation.records import Record, SentenceRecord, above, real_sentences
from asc_jax.text.copying import count_short


class Column(NamedTuple):
  """A metric as one instrument measures it; rates are in percent, counts are not."""

  name: str
  kind: str
  instrument: str = ""  # empty: string rules

  @property
  def percent(self) -> bool:
    return self.kind not in ("supported_count", "words")


JUDGE, MINICHECK, ALIGNSCORE, BESPOKE = "gemma_judge", "minicheck_t5", "alignscore", "bespoke"

PAPER = (
  Column("Err", "unsupported", JUDGE),
  Column("T5", "supported", MINICHECK),
  Column("AS", "supported", ALIGNSCORE),
  Column("Supp", "supported_count", MINICHECK),
  Column("Copy", "copy"),
  Column("Words", "words"),
  Column("Vac", "vacuous", BESPOKE),
  Column("Ref", "declines"),
  Column("EM", "em"),
  Column("R", "reward", BESPOKE),
)
EXTRA = (Column("<5 words", "short"), Column(f"Supp [{JUDGE}]", "supported_count", JUDGE))
OWN = {  # what a reward or a stand-in measures, under its own name
  "R": "reward",
  "Err": "unsupported",
  "Supp": "supported_count",
  "Vac": "vacuous",
}


@dataclasses.dataclass(frozen=True)
class Summary:
  """The metrics of one set of answers.

  Attributes:
    questions, answers, sentences: how many were counted.
    values: by column name, in percent or counts; None prints as –.
    columns: what each name means.
    unscored: by instrument that ran, sentences it could not score.
    instruments: weights hashes by name.
  """

  questions: int
  answers: int
  sentences: int
  values: dict[str, float | None]
  columns: tuple[Column, ...]
  unscored: dict[str, int]
  instruments: dict[str, str]


def origin(instrument: str) -> tuple[Column, Column]:
  """The unsupported share of authored and of copied sentences (the paper's Figure 1a)."""
  return (
    Column(f"authored [{instrument}]", "unsupported", instrument),
    Column(f"copied [{instrument}]", "copied_unsupported", instrument),
  )


def columns(records: Iterable[Record]) -> tuple[Column, ...]:
  """The paper's columns, then credit and the columns of the reward and each stand-in."""
  rewards: dict[str, None] = {}
  instruments: dict[str, None] = {}
  for record in records:
    rewards.setdefault(record["reward_instrument"])
    instruments.update(dict.fromkeys(record["instruments"]))
  credit = [Column(f"Credit [{name}]", "credit", name) for name in rewards if name]
  paper = {column.instrument for column in PAPER}
  known = {(column.kind, column.instrument) for column in (*PAPER, *EXTRA)}
  own = [
    Column(f"{name} [{instrument}]", kind, instrument)
    for instrument in instruments
    if instrument in rewards or instrument not in paper
    for name, kind in OWN.items()
    if (kind, instrument) not in known
  ]
  return (*PAPER, *EXTRA, *credit, *own)


_ABSENT = (math.nan, math.nan)


def _support(sentence: SentenceRecord, instrument: str, document: str) -> bool | None:
  """The instrument's verdict given `document` (supported or vacuous), None if unscored."""
  score = sentence["scores"].get(instrument)
  if score is None:
    return None
  probability = score["vacuous"] if document == "vacuous" else score["supported"]
  return None if probability is None else above(probability, score["threshold"])


def _judged(record: Record, column: Column) -> tuple[float, float]:
  """Numerator and denominator of a metric that needs an instrument."""
  name = column.instrument
  sentences = real_sentences(record)
  if column.kind == "credit":
    if record["reward_instrument"] != name:
      return 0.0, 0.0
    credits = [s["credit"] for s in sentences if s["credit"] is not None]
    return sum(credits), len(credits)
  if name not in record["instruments"]:
    return _ABSENT
  if column.kind != "reward":
    wants_copied = column.kind == "copied_unsupported"
    sentences = [s for s in sentences if s["copied"] == wants_copied]
  verdicts = [_support(s, name, "supported") for s in sentences]
  if column.kind in ("reward", "supported_count"):
    if None in verdicts:
      return _ABSENT
    share = 1 if column.kind == "supported_count" else max(len(verdicts), 1)
    return sum(map(bool, verdicts)) / share, 1
  if column.kind == "vacuous":
    supported = [s for s, verdict in zip(sentences, verdicts, strict=True) if verdict]
    verdicts = [_support(s, name, "vacuous") for s in supported]
  wanted = column.kind not in ("unsupported", "copied_unsupported")
  return verdicts.count(wanted), len(verdicts) - verdicts.count(None)


def ratio(record: Record, column: Column) -> tuple[float, float]:
  """The record's share of a column: what it adds above and below the line."""
  if column.instrument:
    return _judged(record, column)
  match column.kind:
    case "copy":
      return round(record["copy"] * record["words"]), record["words"]
    case "words":
      return record["words"], 1
    case "declines":
      return record["declines"], 1
    case "em":
      return (0, 0) if record["em"] is None else (record["em"], 1)
    case "short":
      spans = [(s["start"], s["end"]) for s in real_sentences(record)]
      return count_short(record["answer"], spans), len(spans)
  raise ValueError(f"no metric of kind {column.kind!r}")


def question_sums(
  records: Iterable[Record], table: Sequence[Column]
) -> tuple[list[tuple[str, str]], np.ndarray]:
  """(corpus, id) of each question as it appears, and its sums, float64[questions, columns, 2]."""
  sums: dict[tuple[str, str], np.ndarray] = collections.defaultdict(
    lambda: np.zeros((len(table), 2))
  )
  for record in records:
    sums[record["corpus"], record["id"]] += [ratio(record, column) for column in table]
  return list(sums), np.stack(list(sums.values())) if sums else np.zeros((0, len(table), 2))


def values(sums: np.ndarray, table: Sequence[Column]) -> np.ndarray:
  """[..., columns, 2] sums to [..., columns] values, NaN where undefined."""
  above, below = sums[..., 0], sums[..., 1]
  scale = np.where([column.percent for column in table], 100.0, 1.0)
  return scale * np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _unscored(records: Sequence[Record]) -> dict[str, int]:
  """Sentences without a verdict, by instrument that ran; copied ones may be skipped by choice."""
  counts: dict[str, int] = collections.Counter()
  for record in records:
    for name in record["instruments"]:
      counts[name] += sum(_support(s, name, "supported") is None for s in real_sentences(record))
  return {name: count for name, count in counts.items() if count}


def summarise(records: Sequence[Record], table: Sequence[Column] | None = None) -> Summary:
  """All metrics of one set of answers: one method on one corpus.

  Args:
    records: answers as `records.read` gives them.
    table: the columns wanted; None: `columns(records)`.
  """
  table = columns(records) if table is None else tuple(table)
  ids, sums = question_sums(records, table)
  numbers = values(sums.sum(axis=0), table)
  instruments: dict[str, str] = {}
  for record in records:
    instruments.update(record["instruments"])
  return Summary(
    questions=len(ids),
    answers=len(records),
    sentences=sum(len(real_sentences(record)) for record in records),
    values={
      column.name: None if math.isnan(value) else float(value)
      for column, value in zip(table, numbers, strict=True)
    },
    columns=tuple(table),
    unscored=_unscored(records),
    instruments=instruments,
  )


def macro_mean(summaries: Sequence[Summary]) -> Summary:
  """The plain mean over corpora of every column; None where a corpus has none.

  A corpus that cannot have the column at all (EM outside ASQA) does not count.
  """
  table = tuple(dict.fromkeys(column for s in summaries for column in s.columns))
  means: dict[str, float | None] = {}
  for column in table:
    found = [s.values.get(column.name) for s in summaries]
    if column.kind == "em":
      found = [value for value in found if value is not None]
    means[column.name] = None if None in found or not found else float(np.mean(found))  # type: ignore[arg-type]
  unscored: collections.Counter = collections.Counter()
  for summary in summaries:
    unscored.update(summary.unscored)
  return Summary(
    questions=sum(s.questions for s in summaries),
    answers=sum(s.answers for s in summaries),
    sentences=sum(s.sentences for s in summaries),
    values=means,
    columns=table,
    unscored=dict(unscored),
    instruments={name: h for s in summaries for name, h in s.instruments.items()},
  )


def flags(base: Summary, method: Summary) -> tuple[str, ...]:
  """Names of the columns in which `method` took a shortcut.

  Copy, Vac or Ref more than 3 points above the base model's, or Words under 85 %
  of its. Values are rounded to 1e-9 first, so that exactly 3 points is no flag.

  Examples:
    >>> table = (Column("Copy", "copy"), Column("Words", "words"))
    >>> of = lambda *v: Summary(1, 1, 1, dict(zip(("Copy", "Words"), v)), table, {}, {})
    >>> flags(of(38.8, 73.5), of(72.8, 13.7))
    ('Copy', 'Words')
    >>> flags(of(38.8, 100.0), of(41.8, 85.0))
    ()
  """
  found = []
  for column in method.columns:
    ours, theirs = method.values.get(column.name), base.values.get(column.name)
    if ours is None or theirs is None:
      continue
    rose = column.kind in ("copy", "vacuous", "declines") and round(ours - theirs, 9) > 3
    shrank = column.kind == "words" and round(ours - 0.85 * theirs, 9) < 0
    if rose or shrank:
      found.append(column.name)
  return tuple(found)

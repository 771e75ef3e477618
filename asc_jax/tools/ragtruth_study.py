"""The human study: how often people marked an error in authored and in copied sentences.

  python -m asc_jax.tools.ragtruth_study --path=../shared/data/ragtruth

Reads RAGTruth's response and source files, a part or the whole public release (the paper:
12.2 % of authored and 1.9 % of copied sentences over 131,087, all tasks). A sentence is
erroneous iff a marked span covers some of its characters. Intervals: 95 %, bootstrap over
sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asc_jax import cli
from asc_jax.config import Field
from asc_jax.data.corpora import ragtruth
from asc_jax.evaluation import bootstrap
from asc_jax.text import copying, sentences
from asc_jax.types import UserError


class Sentence(NamedTuple):
  """One sentence of a response."""

  source_id: str
  task: str
  model: str
  copied: bool
  kinds: frozenset[str]  # of the errors marked in it


class Shares(NamedTuple):
  """Erroneous shares of authored and copied sentences, and their ratio, with intervals."""

  sentences: int
  points: np.ndarray  # float[3]; NaN where there is no such sentence
  bounds: list[tuple[float | None, float | None]]


def main(path: str, threshold: float, quality: str, resamples: int) -> None:
  """Prints the table."""
  responses, refused = ragtruth.labelled(path)
  kept = [r for r in responses if quality == "all" or r.quality == "good"]
  found = [s for r in kept for s in read_sentences(r, threshold)]
  if not found:
    raise UserError(f"{path}: no response with its source is left; give RAGTruth's two files")
  print(f"{len(found)} sentences of {len(kept)} responses to {_count(found)} sources\n")
  for reason, ids in sorted(refused.items()):
    print(f"left out, {reason}: {len(ids)} responses ({', '.join(ids[:3])}, ...)")
  print("| | sentences | authored, % | copied, % | ratio |\n|---|---|---|---|---|")
  for name, group, kind in groups(found):
    print(row(name, shares(group, kind, resamples)))


def read_sentences(response: ragtruth.Labelled, threshold: float) -> list[Sentence]:
  """Splits a response; each sentence gets the kinds of the spans that touch it."""
  text = response.response
  spans = sentences.split(text)
  passages = [p.text for p in response.passages]
  copied = copying.sentences_copied(text, spans, passages, threshold)
  return [
    Sentence(
      response.source_id,
      response.task,
      response.model,
      copied_,
      frozenset(
        s.kind for s in response.spans if text[max(start, s.start) : min(end, s.end)].strip()
      ),
    )
    for (start, end), copied_ in zip(spans, copied, strict=True)
  ]


def groups(found: list[Sentence]) -> Iterator[tuple[str, list[Sentence], str | None]]:
  """Name, sentences and the kind of error that counts (None: any): all, by task, model, kind."""
  yield "all", found, None
  for column in ("task", "model"):
    for value in sorted({getattr(s, column) for s in found}):
      yield f"{column} {value}", [s for s in found if getattr(s, column) == value], None
  for kind in sorted(set().union(*(s.kinds for s in found))):
    yield f"only {kind}", found, kind


def shares(group: list[Sentence], kind: str | None, resamples: int) -> Shares:
  """The shares of one group, bootstrapped over its sources."""
  order = {source: i for i, source in enumerate(dict.fromkeys(s.source_id for s in group))}
  sums = np.zeros((len(order), 2, 2))  # [sources, authored or copied, errors and sentences]
  for s in group:
    wrong = kind in s.kinds if kind else bool(s.kinds)
    sums[order[s.source_id], int(s.copied)] += wrong, 1
  drawn = ratios(bootstrap.resampled(sums, resamples=resamples, seed=0))  # [resamples, 3]
  bounds = [bootstrap.interval(column) for column in drawn.T]
  return Shares(len(group), ratios(sums.sum(axis=0)), bounds)


def ratios(sums: np.ndarray) -> np.ndarray:
  """[..., 2, 2] -> [..., 3]: authored share, copied share, their ratio; NaN for 0 / 0."""
  with np.errstate(divide="ignore", invalid="ignore"):
    return with_ratio(sums[..., 0] / sums[..., 1])


def with_ratio(share: np.ndarray) -> np.ndarray:
  """[..., 2] -> [..., 3]; the ratio to no copied error is NaN."""
  with np.errstate(divide="ignore", invalid="ignore"):
    ratio = np.where(share[..., 1] > 0, share[..., 0] / share[..., 1], np.nan)
  return np.concatenate([share, ratio[..., None]], axis=-1)


def _count(found: list[Sentence]) -> int:
  return len({s.source_id for s in found})


def row(name: str, result: Shares) -> str:
  """A line of the table."""
  cells = []
  for i, scale in enumerate((100, 100, 1)):
    point, (low, high) = result.points[i], result.bounds[i]
    bounds = ""
    if low is not None and high is not None:
      bounds = f" [{scale * low:.1f}, {scale * high:.1f}]"
    cells.append("-" if np.isnan(point) else f"{scale * point:.1f}{bounds}")
  return f"| {name} | {result.sentences} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
  cli.run(
    main,
    fields=None,
    path=Field("../shared/data/ragtruth", "folder with the response and source files"),
    threshold=Field(
      0.5,
      "share of words in five-word matches from which a sentence is copied",
      float,
      low=0,
      high=1,
    ),
    quality=Field("all", "responses that count", choices=("all", "good")),
    resamples=Field(2000, "bootstrap resamples", int, low=1, high=1_000_000),
  )

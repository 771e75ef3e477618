"""The provenance study: how often checkers find authored and copied sentences unsupported.

  python -m asc_jax.tools.provenance_study --workdir=DIR --config=FILE.py \\
    [--models=...] [--instruments=...]
  python -m asc_jax.tools.provenance_study --records=DIR,FILE.jsonl

The first form samples answers of base models on config.eval's corpora and scores them, as
`python -m asc_jax.evaluate` with the same flags does (by itself: the base model under
config.checker), goes on where it was stopped, and reads the records. The second reads what
is there. Only answers at step 0 count, those of models that nothing trained. Prints the
unsupported share of both kinds of sentences, their ratio and 95 % intervals, bootstrapped
over questions, of each model on each corpus and of their mean, under each instrument; then how
alike each two instruments rank the sentences, a mean over models and corpora.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from asc_jax import cli, evaluate
from asc_jax.config import Field
from asc_jax.evaluation import bootstrap, metrics, runs
from asc_jax.evaluation.records import Record, real_sentences
from asc_jax.tools.ragtruth_study import Shares, ratios, row, with_ratio
from asc_jax.types import UserError

Cells = Mapping[tuple[str, str], Sequence[Record]]  # by model and corpus


def main(
  config,
  workdir: str | None,
  records: str | None,
  models: str | None,
  instruments: str | None,
  resamples: int,
) -> None:
  """Samples where no records are given, and prints the table."""
  if (workdir is None) == (records is None):
    raise UserError("give --workdir=DIR to sample answers there, or --records=PATHS to read them")
  if records is not None and not evaluate.split_names(records):
    raise UserError(f"--records={records} names none; give workdirs or records files, with commas")
  if workdir is not None:
    evaluate.main(config, workdir, models or evaluate.BASE, instruments)
    print()
  cells = read(evaluate.split_names(records) or [str(workdir)])
  print("| | sentences | authored, % | copied, % | ratio |\n|---|---|---|---|---|")
  for name, result in study(cells, resamples):
    print(row(name, result))
  alike = list(agreement(cells))
  if alike:
    print("\nrank correlation:\n", *alike, sep="\n")


def read(paths: Sequence[str]) -> Cells:
  """The answers at step 0 in workdirs and records files."""
  cells = {
    (run.name, corpus): rows
    for run in runs.load_all(paths)
    for corpus, rows in runs.by_corpus(run.records, 0).items()
  }
  if not cells:
    raise UserError(f"{', '.join(paths)}: no answer at step 0; evaluate base models there first")
  return cells


def study(cells: Cells, resamples: int) -> Iterator[tuple[str, Shares]]:
  """Name and shares of every cell and of the mean over them, an instrument at a time.

  The mean weighs every model on every corpus alike; its ratio is that of the two means.

  Raises:
    UserError: no instrument scored every answer.
  """
  scored = [set(record["instruments"]) for rows in cells.values() for record in rows]
  both = set.intersection(*scored)
  if not both:
    raise UserError("no instrument scored every answer; evaluate all models by the same ones")
  corpora = sorted({corpus for _, corpus in cells})
  for instrument in sorted(both):
    sums, drawn = [], []
    for (model, corpus), rows in cells.items():
      _, found = metrics.question_sums(rows, metrics.origin(instrument))  # [Q, 2, 2]
      sums.append(found.sum(axis=0))
      own = None
      if len(found) >= bootstrap.MIN_QUESTIONS:
        # One seed a corpus: models that answered the same questions get the same draws.
        seed = corpora.index(corpus)
        own = ratios(bootstrap.resampled(found, resamples=resamples, seed=seed))
      name = f"{model}, {corpus}, {instrument}"
      yield name, _shares(sums[-1][:, 1].sum(), ratios(sums[-1]), own)
      drawn.append(np.full((resamples, 3), np.nan) if own is None else own)
    if len(cells) > 1:
      point = with_ratio(ratios(np.stack(sums))[:, :2].mean(axis=0))
      mean = with_ratio(np.stack(drawn)[..., :2].mean(axis=0))
      yield f"mean, {instrument}", _shares(np.stack(sums)[..., 1].sum(), point, mean)


def agreement(cells: Cells) -> Iterator[str]:
  """Spearman's rank correlation of P(supported) under each two instruments, a line each.

  A mean over models and corpora: pooled sentences would agree on which corpus is easy.
  """
  sentences = [
    [sentence["scores"] for record in rows for sentence in real_sentences(record)]
    for rows in cells.values()
  ]
  names = set.intersection(
    *(set(record["instruments"]) for rows in cells.values() for record in rows)
  )
  for two in itertools.combinations(sorted(names), 2):
    values, count = [], 0
    for cell in sentences:
      # None, where one of them did not score, becomes NaN.
      found = [[scores[n]["supported"] if n in scores else None for n in two] for scores in cell]
      pairs = np.array(found, float).reshape(-1, 2)
      pairs = pairs[~np.isnan(pairs).any(axis=1)]
      values.append(spearmanr(*pairs.T).statistic if len(pairs) > 1 else np.nan)
      count += len(pairs)
    if not np.isnan(values).all():
      yield f"{' and '.join(two)}: {np.nanmean(values):.2f} ({count} sentences)"


def _shares(sentences: float, points: np.ndarray, drawn: np.ndarray | None) -> Shares:
  bounds: list[tuple[float | None, float | None]] = [(None, None)] * 3
  if drawn is not None:
    bounds = [bootstrap.interval(column) for column in drawn.T]
  return Shares(int(sentences), points, bounds)


if __name__ == "__main__":
  cli.run(
    main,
    workdir=Field(None, "folder to sample into, as of asc_jax.evaluate", optional=True),
    records=Field(None, "workdirs or records files to read, with commas", optional=True),
    models=Field(None, "who answers, as of asc_jax.evaluate; None: base", optional=True),
    instruments=Field(None, "who scores besides config.checker: NAME or NAME:PATH", optional=True),
    resamples=Field(2000, "bootstrap resamples", int, low=1, high=1_000_000),
  )

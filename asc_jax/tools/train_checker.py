"""Fits an embedded checker's two heads on labelled pairs, and scores held-out ones once.

  python -m asc_jax.tools.train_checker --config=configs/checker_minilm.py
  python -m asc_jax.tools.train_checker --config=configs/checker_likelihood.py

Head a, the reward's, is fitted on the pairs of the split checker_a, its held-out twin b
on those of checker_b; both are scored on the split eval, beside the lexical instrument and,
of `likelihood`, each half of the features. "left out" is a head fitted without the set that
it is scored on. Written: CHECKER_a.json and CHECKER_b.json; the same pairs give the same
bytes on one machine.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from asc_jax import checkers, cli
from asc_jax.checkers import encoder, fitting, likelihood, minilm, pair_features, quality
from asc_jax.config import Field
from asc_jax.data import files, splits, support_pairs

FIELDS = {
  "data.path": Field("../shared/data", "folder of the labelled sets (data/support_pairs.py)"),
  "data.pairs": Field(
    None,
    "pairs read of each set in each part, chosen by hash; None: all",
    int,
    low=1,
    optional=True,
  ),
  "data.test": Field("eval", "part that heads are scored on", choices=splits.SPLITS[1:]),
  "checker": Field("minilm", "whose heads", choices=("minilm", "likelihood")),
  "encoder.path": Field(None, "all-MiniLM-L6-v2's folder; None: the package's", optional=True),
  "fit.l2": Field(0.1, "weight of half the squared norm of the head's weights", float, low=1e-6),
  "cache": Field(None, "folder in which features are kept and looked up", optional=True),
  "out": Field(str(pathlib.Path(minilm.__file__).parent / "data"), "folder of the heads"),
}
NAMES = {"minilm": pair_features.NAMES, "likelihood": likelihood.NAMES}
_ALIGNMENT = len(pair_features.NAMES)
# Which features: both, and each half of those of `likelihood`.
GROUPS = {
  "minilm": {"head": slice(None)},
  "likelihood": {
    "head": slice(None),
    "without likelihood": slice(_ALIGNMENT),
    "likelihood alone": slice(_ALIGNMENT, None),
  },
}

_BLOCK = 64  # pairs whose features are written down together

# (documents, sentences) -> float32[N, F]
Features = Callable[[Sequence[str], Sequence[str]], np.ndarray]


class Rows(NamedTuple):
  """One set's pairs, policies' training questions left out."""

  features: np.ndarray  # float32[N, F]
  lexical: np.ndarray  # float32[N]
  labels: np.ndarray  # bool[N]
  splits: np.ndarray  # str[N]

  def part(self, *splits: str) -> Rows:
    """The pairs of some parts of the committed split."""
    inside = np.isin(self.splits, splits)
    return Rows(*(column[inside] for column in self))


def main(config) -> None:
  """Reads, embeds, fits, prints the tables and writes the heads."""
  out = files.make_folder(config.out, "--config.out")
  pairs = support_pairs.read(config.data.path)
  embed = encoder.Encoder(encoder.find_weights(config.encoder.path))
  readers: dict[str, Features] = {"minilm": lambda *texts: minilm.features(embed, *texts)}
  if config.checker == "likelihood":
    readers["likelihood"] = likelihood.read_model().features
  if config.cache is not None:
    files.make_folder(config.cache, "--config.cache")
    readers = {name: cached(read, f"{config.cache}/{name}") for name, read in readers.items()}
  sets = {}
  for name, found in pairs.items():
    start = time.monotonic()
    sets[name] = read_rows(choose(found, config.data.pairs), readers.values())
    seconds = time.monotonic() - start
    print(f"{name}: {len(sets[name].labels)} pairs read in {seconds:.0f} s", flush=True)
  twins = []
  for head in minilm.HEADS:
    twins.append(fit(sets, f"checker_{head}", config.fit.l2))
    print(f"\nhead {head}, fitted on checker_{head}, scored on {config.data.test}\n")
    print(table(sets, GROUPS[config.checker], f"checker_{head}", config))
    path = out / f"{config.checker}_{head}.json"
    path.write_text(twins[-1].to_json(NAMES[config.checker]))
  print("\nrank correlation of the twins' scores:", agreement(sets, twins, config.data.test))
  print(f"\nwritten: {out}/{config.checker}_a.json, {out}/{config.checker}_b.json")


def choose(
  pairs: Sequence[support_pairs.SupportPair], count: int | None
) -> list[support_pairs.SupportPair]:
  """The pairs that no policy is trained on, `count` of each part at most, chosen by hash."""
  kept = []
  for split in splits.SPLITS[1:]:
    kept += support_pairs.choose([p for p in pairs if p.split == split], count)
  return kept


def cached(read: Features, stem: str) -> Features:
  """`read`, which keeps each pair's row in STEM.npz; a run that was cut off goes on from there."""
  path, partial = pathlib.Path(f"{stem}.npz"), pathlib.Path(f"{stem}.partial.npz")

  def features(documents, sentences):
    pairs = list(zip(documents, sentences, strict=True))
    keys = {pair: hashlib.sha256(repr(pair).encode()).hexdigest()[:20] for pair in pairs}
    rows = {}
    if path.exists():
      with np.load(path) as saved:
        rows = dict(zip(saved["keys"].tolist(), saved["rows"], strict=True))
    todo = sorted(pair for pair, key in keys.items() if key not in rows)  # documents together
    for at in range(0, len(todo), _BLOCK):
      block = todo[at : at + _BLOCK]
      found = read(*zip(*block, strict=True))
      rows |= zip([keys[pair] for pair in block], found, strict=True)
      np.savez(partial, keys=list(rows), rows=list(rows.values()))
      os.replace(partial, path)
    return np.stack([rows[keys[pair]] for pair in pairs])

  return features


def read_rows(pairs: Sequence[support_pairs.SupportPair], readers: Iterable[Features]) -> Rows:
  """Features and labels of the pairs; those that do not fit a model's window are left out."""
  documents, sentences = [p.document for p in pairs], [p.sentence for p in pairs]
  features = np.hstack([read(documents, sentences) for read in readers])
  fits = np.isfinite(features).all(axis=1)
  return Rows(
    features[fits],
    checkers.load("lexical").score(documents, sentences)[fits],
    np.array([p.supported for p in pairs])[fits],
    np.array([p.split for p in pairs])[fits],
  )


def fit(sets: dict[str, Rows], split: str, l2: float, columns: slice = slice(None)) -> minilm.Head:
  """A head on some features of the pairs of `split`, every set and both labels counting alike."""
  parts = [rows.part(split) for rows in sets.values()]
  which = np.repeat(np.arange(len(parts)), [len(p.labels) for p in parts])
  labels = np.concatenate([p.labels for p in parts])
  features = np.concatenate([p.features[:, columns] for p in parts])
  return fitting.fit_head(features, labels, fitting.balance(which, labels), l2)


def table(sets: dict[str, Rows], groups: dict[str, slice], split: str, config) -> str:
  """AUROC, and balanced accuracy of the first group's head, in Markdown."""
  grid = np.linspace(0, 1, 101)
  fitted_on = [rows.part(split) for rows in sets.values()]
  # The share of words has no neutral point: its threshold is fitted on the same pairs.
  threshold = grid[np.argmax([_mean_accuracy(fitted_on, t) for t in grid])]
  titles = [title for group in groups for title in (group, f"{group}, left out")]
  lines = [
    f"| set | pairs | supported | AUROC lexical | {' | '.join(titles)} | balanced accuracy lexical (above {threshold:.2f}) | head (above 0.5) |",
    "|---" * (6 + len(titles)) + "|",
  ]
  heads = [fit(sets, split, config.fit.l2, columns) for columns in groups.values()]
  rows_of_table = []
  for name, rows in sets.items():
    test = rows.part(config.data.test)
    others = {k: v for k, v in sets.items() if k != name}
    figures = [quality.auroc(test.labels, test.lexical)]
    for head, columns in zip(heads, groups.values(), strict=True):
      left_out = fit(others, split, config.fit.l2, columns)
      figures += [
        quality.auroc(test.labels, h(test.features[:, columns])) for h in (head, left_out)
      ]
    figures += [
      quality.balanced_accuracy(test.labels, test.lexical, threshold),
      quality.balanced_accuracy(test.labels, heads[0](test.features)),
    ]
    rows_of_table.append(figures)
    share = f"{test.labels.mean():.2f}"
    lines.append(_line(name, str(len(test.labels)), share, *(f"{v:.3f}" for v in figures)))
  lines.append(_line("mean", "", "", *(f"{v:.3f}" for v in np.nanmean(rows_of_table, axis=0))))
  return "\n".join(lines)


def agreement(sets: dict[str, Rows], twins: Sequence[minilm.Head], test: str) -> str:
  """Spearman's correlation of two heads' scores in each set."""
  scores = {name: [head(rows.part(test).features) for head in twins] for name, rows in sets.items()}
  return ", ".join(f"{name} {spearmanr(*two).statistic:.2f}" for name, two in scores.items())


def _mean_accuracy(parts: list[Rows], threshold: float) -> float:
  accuracies = [quality.balanced_accuracy(p.labels, p.lexical, threshold) for p in parts]
  return float(np.nanmean(accuracies))


def _line(*cells: str) -> str:
  return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
  cli.run(main, fields=FIELDS)

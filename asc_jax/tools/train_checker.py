"""Fits the embedded checker's two heads on labelled pairs, and scores held-out ones once.

  python -m asc_jax.tools.train_checker --config=configs/checker_minilm.py

Head a, the reward's, is fitted on the pairs of the split checker_a, its held-out twin b
on those of checker_b; both are scored on the split eval, beside the lexical instrument.
"left out" is a head fitted without the set that it is scored on. Written: minilm_a.json
and minilm_b.json; the same pairs give the same bytes on one machine.
"""

from __future__ import annotations

import pathlib
import time
from typing import NamedTuple

import numpy as np

from asc_jax import checkers, cli
from asc_jax.checkers import encoder, fitting, minilm, quality
from asc_jax.config import Field
from asc_jax.data import support_pairs

FIELDS = {
  "data.path": Field("../shared/data", "folder of the labelled sets (data/support_pairs.py)"),
  "encoder.path": Field(None, "all-MiniLM-L6-v2's folder; None: the package's", optional=True),
  "fit.l2": Field(0.1, "weight of half the squared norm of the head's weights", float, low=1e-6),
  "out": Field(str(pathlib.Path(minilm.__file__).parent / "data"), "folder of the heads"),
}


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
  pairs = support_pairs.read(config.data.path)
  embed = encoder.Encoder(encoder.find_weights(config.encoder.path))
  sets = {}
  for name, found in pairs.items():
    start = time.monotonic()
    sets[name] = read_rows(found, embed)
    seconds = time.monotonic() - start
    print(f"{name}: {len(sets[name].labels)} pairs embedded in {seconds:.0f} s", flush=True)
  out = pathlib.Path(config.out)
  out.mkdir(parents=True, exist_ok=True)
  for head in minilm.HEADS:
    fitted = fit(sets, f"checker_{head}", config.fit.l2)
    print(f"\nhead {head}, fitted on checker_{head}, scored on eval\n")
    print(table(sets, fitted, f"checker_{head}", config.fit.l2))
    (out / f"minilm_{head}.json").write_text(fitted.to_json())
  print(f"\nwritten: {out}/minilm_a.json, {out}/minilm_b.json")


def read_rows(pairs: list[support_pairs.SupportPair], embed: encoder.Encoder) -> Rows:
  """Features and labels of the pairs that no policy is trained on."""
  kept = [p for p in pairs if p.split != "train"]
  documents, sentences = [p.document for p in kept], [p.sentence for p in kept]
  return Rows(
    minilm.features(embed, documents, sentences),
    checkers.load("lexical").score(documents, sentences),
    np.array([p.supported for p in kept]),
    np.array([p.split for p in kept]),
  )


def fit(sets: dict[str, Rows], split: str, l2: float) -> minilm.Head:
  """A head on the pairs of `split`, every set and both labels counting alike."""
  parts = [rows.part(split) for rows in sets.values()]
  which = np.repeat(np.arange(len(parts)), [len(p.labels) for p in parts])
  labels = np.concatenate([p.labels for p in parts])
  features = np.concatenate([p.features for p in parts])
  return fitting.fit_head(features, labels, fitting.balance(which, labels), l2)


def table(sets: dict[str, Rows], head: minilm.Head, split: str, l2: float) -> str:
  """AUROC and balanced accuracy on the split eval, in Markdown."""
  grid = np.linspace(0, 1, 101)
  fitted_on = [rows.part(split) for rows in sets.values()]
  # The share of words has no neutral point: its threshold is fitted on the same pairs.
  threshold = grid[np.argmax([_mean_accuracy(fitted_on, t) for t in grid])]
  lines = [
    f"| set | pairs | supported | AUROC lexical | head | left out | balanced accuracy lexical (above {threshold:.2f}) | head (above 0.5) |",
    "|---|---|---|---|---|---|---|---|",
  ]
  columns = []
  for name, rows in sets.items():
    test = rows.part("eval")
    others = {k: v for k, v in sets.items() if k != name}
    left_out = fit(others, split, l2)(test.features)
    scores = head(test.features)
    columns.append(
      [
        quality.auroc(test.labels, test.lexical),
        quality.auroc(test.labels, scores),
        quality.auroc(test.labels, left_out),
        quality.balanced_accuracy(test.labels, test.lexical, threshold),
        quality.balanced_accuracy(test.labels, scores),
      ]
    )
    share = f"{test.labels.mean():.2f}"
    lines.append(_line(name, str(len(test.labels)), share, *(f"{v:.3f}" for v in columns[-1])))
  lines.append(_line("mean", "", "", *(f"{v:.3f}" for v in np.nanmean(columns, axis=0))))
  return "\n".join(lines)


def _mean_accuracy(parts: list[Rows], threshold: float) -> float:
  accuracies = [quality.balanced_accuracy(p.labels, p.lexical, threshold) for p in parts]
  return float(np.nanmean(accuracies))


def _line(*cells: str) -> str:
  return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
  cli.run(main, fields=FIELDS)

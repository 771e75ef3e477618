"""Three sentence splitters, and ours, on hand-marked public answers.

    python benchmarks/sentence_splitters.py --data=../shared/data

The marks are in tests/text/splitting_*.json: where each sentence of an answer
starts and ends, without the texts, which are read from the public corpora. The 60
were marked before any splitter was run on them; our rules were then written with
them in view, which the 20 held-out answers were not. F1 is over the boundaries
inside answers, summed over answers; an answer is exact iff all of its are right.
Needs `pip install nupunkt pysbd sentencex`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from unittest import mock

import nupunkt
import pysbd
import sentencex

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT), str(ROOT / "tests/text")]

import public_rows  # noqa: E402

from asc_jax.text import sentences  # noqa: E402

Span = tuple[int, int]
Splitter = Callable[[str], Sequence[Span]]


def libraries() -> dict[str, Splitter]:
  rules = pysbd.Segmenter(language="en", clean=False, char_span=True)
  return {
    "nupunkt": nupunkt.sent_spans,
    "pysbd": lambda text: [(s.start, s.end) for s in rules.segment(text)],
    "sentencex": lambda text: [
      (s["start_index"], s["end_index"]) for s in sentencex.get_sentence_boundaries("en", text)
    ],
  }


def by_line(split: Splitter) -> Splitter:
  """A splitter that sees one line at a time."""

  def split_lines(text: str) -> list[Span]:
    found: list[Span] = []
    for line in re.finditer(r"[^\n]+", text):
      found += [(line.start() + start, line.start() + end) for start, end in split(line[0])]
    return found

  return split_lines


def with_our_rules(split: Splitter) -> Splitter:
  """Our rules over another library."""

  def split_patched(text: str) -> list[Span]:
    with mock.patch.object(nupunkt, "sent_spans", split):
      return sentences.split(text)

  return split_patched


def boundaries(text: str, spans: Sequence[Span]) -> set[int]:
  """Where the second and later sentences begin, white space left out."""
  starts = [end - len(text[start:end].lstrip()) for start, end in spans if text[start:end].strip()]
  return set(starts[1:])


def measure(split: Splitter, rows: list[dict], texts: list[str]) -> tuple[float, int, float]:
  """Boundary F1, exact answers, seconds a thousand answers."""
  start = time.process_time()
  found = [split(text) for text in texts]
  seconds = (time.process_time() - start) * 1000 / len(texts)
  hits = total = exact = 0
  for row, text, spans in zip(rows, texts, found, strict=True):
    ours, gold = boundaries(text, spans), boundaries(text, row["boundaries"])
    hits, total, exact = (
      hits + len(ours & gold),
      total + len(ours) + len(gold),
      exact + (ours == gold),
    )
  return 2 * hits / total, exact, seconds


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
  data = parser.parse_args().data
  for name in ("gold", "heldout"):
    rows = json.loads((ROOT / f"tests/text/splitting_{name}.json").read_text())
    texts = [public_rows.text(data, row) for row in rows]
    print(f"{name}: {len(rows)} answers, {sum(len(r['boundaries']) for r in rows)} sentences")
    print(f"{'splitter':<24} {'F1':>6} {'exact':>6} {'s/1000':>7}")
    for library, split in libraries().items():
      for label, variant in (
        (library, split),
        (f"{library}, by line", by_line(split)),
        (f"{library}, our rules", with_our_rules(split)),
      ):
        f1, exact, seconds = measure(variant, rows, texts)
        print(f"{label:<24} {f1:>6.3f} {exact:>6} {seconds:>7.2f}")


if __name__ == "__main__":
  main()

"""Shows what a reader makes of a corpus: counts, lengths, what was dropped, examples.

  python -m asc_jax.tools.inspect_data --config.data.corpus=ragtruth \\
    --config.data.path=FOLDER

Reads the corpus as training would (`data.passage_words` included) and prints how many
questions each part of the committed split has, how long questions, passages and answers
are in words, how many rows were dropped for which reason, and three examples. No model
is loaded and nothing is written.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable

from asc_jax import cli
from asc_jax.data import corpora, splits
from asc_jax.data.answerable import answerable
from asc_jax.types import Example

_SHOWN = 3


def main(config) -> None:
  """Prints the page for `config.data`."""
  data = config.data
  examples, dropped = corpora.read(data.corpus, data.path, passage_words=data.passage_words)
  print(report(data.corpus, examples, dropped))


def report(corpus: str, examples: list[Example], dropped: dict[str, int]) -> str:
  """The page as text."""
  parts = Counter(map(splits.of_example, examples))
  verdicts = Counter(map(answerable, examples))
  lines = [
    f"{corpus}: {len(examples)} questions",
    "  split: " + ", ".join(f"{name} {parts[name]}" for name in splits.SPLITS),
    f"  answerable from the passages: yes {verdicts[True]}, no {verdicts[False]},"
    f" needs a judge {verdicts[None]}",
    f"  with a reference answer: {sum(bool(e.answers) for e in examples)};"
    f" with short answers: {sum(bool(e.qa_pairs or e.aliases) for e in examples)}",
    "",
    f"{'':24}{'min':>8}{'median':>8}{'mean':>8}{'max':>8}",
    _lengths("words a question", (_words(e.question) for e in examples)),
    _lengths("passages a question", (len(e.passages) for e in examples)),
    _lengths("words of passages", (sum(_words(p.text) for p in e.passages) for e in examples)),
    _lengths("words a passage", (_words(p.text) for e in examples for p in e.passages)),
    _lengths("words an answer", (_words(a) for e in examples for a in e.answers)),
    "",
    f"dropped: {sum(dropped.values())}",
    *(f"  {n:6d}  {reason}" for reason, n in sorted(dropped.items(), key=lambda r: (-r[1], r[0]))),
  ]
  for example in splits.select(examples, "all")[:_SHOWN]:
    lines += ["", *_show(example)]
  return "\n".join(lines)


def _words(text: str) -> int:
  return len(text.split())


def _lengths(name: str, counts: Iterable[int]) -> str:
  values = sorted(counts)
  if not values:
    return f"{name:24}" + f"{'–':>8}" * 4
  middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
  mean = sum(values) / len(values)
  return f"{name:24}{values[0]:8d}{middle:8g}{mean:8.1f}{values[-1]:8d}"


def _show(example: Example) -> list[str]:
  """One example, its long texts cut to a line each."""
  fields = [("question", example.question)]
  fields += [
    (f"passage {i}", f"{p.title}: {p.text}".removeprefix(": "))
    for i, p in enumerate(example.passages, 1)
  ]
  fields += [("answer", answer) for answer in example.answers]
  fields += [
    ("short answers", " | ".join(aliases))
    for aliases in (*example.qa_pairs, example.aliases)
    if aliases
  ]
  head = f"{example.id} ({splits.of_example(example)})"
  return [head] + [
    f"  {name:14}{textwrap.shorten(text, 110, placeholder=' …')}" for name, text in fields
  ]


if __name__ == "__main__":
  cli.run(main)

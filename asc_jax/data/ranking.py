"""Cuts a question's passages to those that share its words.

Retrieval is no part of the method, but some corpora hold ten thousand words a
question. What is kept is chosen by the words alone (Okapi BM25 over the question's own
passages), so that the choice needs no model and is the same everywhere.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter

from asc_jax.types import Example

_K1, _B = 1.2, 0.75  # Okapi's customary constants


def rank(question: str, texts: list[str]) -> list[int]:
  """Indices of `texts`, the best match of the question's words first.

  Ties keep the order of the texts.

  >>> rank("Why do otters swim?", ["Foxes run.", "Otters swim well.", "Otters eat."])
  [1, 2, 0]
  """
  bags = [Counter(_words(text)) for text in texts]
  lengths = [sum(bag.values()) for bag in bags]
  mean = sum(lengths) / max(len(lengths), 1) or 1.0
  scores = [0.0] * len(texts)
  for word in dict.fromkeys(_words(question)):
    holding = sum(word in bag for bag in bags)
    idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
    for i, (bag, length) in enumerate(zip(bags, lengths, strict=True)):
      scores[i] += idf * bag[word] * (_K1 + 1) / (bag[word] + _K1 * (1 - _B + _B * length / mean))
  return sorted(range(len(texts)), key=lambda i: -scores[i])


def cut(example: Example, max_words: int) -> Example:
  """Keeps the best-ranked passages that fit in `max_words`, in their own order.

  Passages are taken whole, best first, as long as they fit; one too long for the room
  left is passed over. The best passage is kept whatever its length.
  """
  room = max_words
  kept: set[int] = set()
  for i in rank(example.question, [f"{p.title} {p.text}" for p in example.passages]):
    words = len(example.passages[i].text.split())
    if words <= room or not kept:
      kept.add(i)
      room -= words
  return dataclasses.replace(
    example, passages=tuple(p for i, p in enumerate(example.passages) if i in kept)
  )


def _words(text: str) -> list[str]:
  return re.findall(r"\w+", text.casefold())

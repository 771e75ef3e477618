"""The one text that a question's passages are, for checkers and labels."""

from __future__ import annotations

from collections.abc import Sequence

from asc_jax.types import Passage


def document(passages: Sequence[Passage]) -> str:
  r"""Passages as one document, each below its title if it has one.

  >>> document([Passage("Otters", "They swim."), Passage("", "They eat fish.")])
  'Otters\nThey swim.\n\nThey eat fish.'
  """
  return "\n\n".join(f"{p.title}\n{p.text}" if p.title else p.text for p in passages)

"""Whether a question's passages hold its answer (the paper's Table 19).

The corpus's own label counts where it has one. Else a question with short answers is
answerable iff one of them stands in the passages as whole words, after ALCE's
normalisation. For the rest only a judge can tell.
"""

from __future__ import annotations

from asc_jax.data.documents import document
from asc_jax.text.answers import alias_match
from asc_jax.types import Example


def answerable(example: Example) -> bool | None:
  """True, False, or None where it takes a judge or there are no passages."""
  if example.answerable is not None:
    return example.answerable
  short = [alias for pair in example.qa_pairs for alias in pair] + list(example.aliases)
  if not short or not example.passages:
    return None
  return alias_match(document(example.passages), short)

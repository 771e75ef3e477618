"""The packaged decoder checker: SmolLM2-135M under a fitted adapter, averaged with the embedded one.

The two rank pairs differently (docs/instruments.md). P(supported) is the mean of their log-odds, as
a probability: nothing is fitted to weigh them, so that what a twin knows comes from its own part of
the pairs. `python -m asc_jax.tools.train_adapter_checker --config=configs/checker_smollm2.py` makes
the adapter.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from asc_jax.checkers import base, encoder, judge, minilm
from asc_jax.models import checkpoints


class SmolLM2(base.Checker):
  """See the module's docstring.

  Args:
    parts: the checkers that are averaged.
  """

  name = "smollm2"

  def __init__(self, parts: Sequence[base.Checker]):
    self.parts = parts
    digest = "".join(part.weights_hash for part in parts)
    self.weights_hash = hashlib.sha256(digest.encode()).hexdigest()[:16]

  def _score(self, documents: list[str], sentences: list[str]) -> Sequence[float | None]:
    scores = [part.score(documents, sentences) for part in self.parts]
    mean = expit(np.mean([base.log_odds(s) for s in scores], axis=0))
    return [None if np.isnan(p) else float(p) for p in mean]  # NaN: one of them did not score it


def load(
  path: str | None = None,
  *,
  head: str = "a",
  dtype: str = "float32",
  mesh=None,
  tokens_per_batch: int = 256,
) -> SmolLM2:
  """Loads SmolLM2-135M-Instruct, a packaged adapter and the embedded checker's head beside it.

  Args:
    path: SmolLM2's folder or .gguf; None for the installed package's.
    head: "a" is the reward's adapter and head, "b" its held-out twin, fitted on other questions.
    dtype, mesh, tokens_per_batch: the decoder's, as in `judge.load`; MiniLM is small, and
      computes in float32 on the first device.
  """
  minilm.head_text(head)  # this and the next refuse what is not there, before weights are read
  encoder.find_weights(None)
  packaged = importlib.resources.files("asc_jax.checkers")
  decoder = judge.load(
    path or checkpoints.SMOLLM2,
    prompt=str(packaged / "prompts/judge_short.txt"),
    adapter=str(packaged / f"data/smollm2_{head}"),
    dtype=dtype,
    mesh=mesh,
    tokens_per_batch=tokens_per_batch,
  )
  decoder.name = SmolLM2.name  # by which its errors call it
  return SmolLM2([decoder, minilm.load(head=head)])


def load_twin(
  path: str | None = None, *, dtype: str = "float32", mesh=None, tokens_per_batch: int = 256
) -> SmolLM2:
  """The held-out twin, under a name of its own: an evaluator beside the reward's checker."""
  twin = load(path, head="b", dtype=dtype, mesh=mesh, tokens_per_batch=tokens_per_batch)
  twin.name = "smollm2_b"
  return twin

"""Low-rank adapters (Hu et al., 2021) for the decoder's projections.

A projection y = x W gains y += (alpha / rank) (x A) B with A [D, r] drawn at
random and B [r, out] zero, so that a new adapter changes nothing. The reference
policy of GRPO is the same weights with the adapter left out.
"""

from __future__ import annotations

import dataclasses

from asc_jax.config import DELTA_PROJECTIONS, PROJECTIONS
from asc_jax.types import UserError


@dataclasses.dataclass(frozen=True)
class LoraConfig:
  """Which projections have an adapter.

  Attributes:
    rank: inner width r.
    alpha: the adapter's output is scaled by alpha / rank.
    targets: names of projections, of config.PROJECTIONS and DELTA_PROJECTIONS; those that
      a model lacks are passed over.
  """

  rank: int
  alpha: float = 16.0
  targets: tuple[str, ...] = PROJECTIONS

  def __post_init__(self):
    for name in self.targets:
      if name not in PROJECTIONS + DELTA_PROJECTIONS:
        raise UserError(
          f"model.lora.targets names {name!r}, which takes no adapter; choose among {', '.join(PROJECTIONS + DELTA_PROJECTIONS)}"
        )

  @property
  def scale(self) -> float:
    return self.alpha / self.rank


def parse_targets(text: str) -> tuple[str, ...]:
  """`"q_proj, v_proj"` as a tuple of names."""
  return tuple(name.strip() for name in text.split(",") if name.strip())


def from_config(section) -> LoraConfig | None:
  """The adapter that a config's section `model.lora` describes; None at rank 0."""
  if not section.rank:
    return None
  return LoraConfig(section.rank, section.alpha, parse_targets(section.targets))


def merge(params: dict, adapter: dict, lora: LoraConfig) -> dict:
  """The weights with the adapter added in: kernel + (alpha / rank) A B, in float32."""
  merged = {}
  for name, node in params.items():
    extra = adapter.get(name) if isinstance(adapter, dict) else None
    if extra is None:
      merged[name] = node
    elif "lora_a" in extra:
      kernel = node["kernel"]
      delta = extra["lora_a"].astype("float32") @ extra["lora_b"].astype("float32")
      merged[name] = node | {"kernel": (kernel + lora.scale * delta).astype(kernel.dtype)}
    else:
      merged[name] = merge(node, extra, lora)
  return merged

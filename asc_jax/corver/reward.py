"""CorVer's reward: the corpus on each sentence, the answer and the format on the whole.

A token's return is its sentence's reward plus those of its completion,

  G_t = w_local r_sentence(t) + w_judge R_judge + w_format R_format,

and `objective.advantages.token_advantages` compares returns within the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import config_dict

from asc_jax.corver import blocks as blocks_lib
from asc_jax.corver.verify import Verdict, Verifier
from asc_jax.objective import advantages, fspo
from asc_jax.objective.spread import spread
from asc_jax.text import alignment, answers, refusals
from asc_jax.types import Array, Example, Weighted

Outcome = Literal["correct", "wrong", "refused"]


class Completion(NamedTuple):
  """One completion, read and rewarded."""

  text: str
  blocks: blocks_lib.Blocks
  spans: list[tuple[int, int]]  # of its sentences, thinking first
  verdicts: list[Verdict]  # one a sentence
  outcome: Outcome
  judge: float
  format: float

  def answer(self) -> str:
    start, end = self.blocks.answer or (0, 0)
    return self.text[start:end].strip()


class Rewards(NamedTuple):
  """A batch's rewards as arrays; S is the padded number of sentences."""

  local: Array  # float32[B, G, S], 0 on padding
  sentence_ids: Array  # int32[B, G, T], -1 on tags, white space and padding
  judge: Array  # float32[B, G]
  format: Array  # float32[B, G]


@dataclasses.dataclass(frozen=True)
class Scores:
  """Rewards of a whole completion, and the tags that mark its blocks."""

  correct: float = 2.0
  wrong: float = -1.0
  refused: float = -1.0
  formatted: float = 1.0
  unformatted: float = -1.0
  think_tag: str = "think"
  answer_tag: str = "answer"


def scores(config: config_dict.ConfigDict) -> Scores:
  """Reads them from the config's section `corver`."""
  return Scores(**{field.name: config[field.name] for field in dataclasses.fields(Scores)})


def outcome(answer: str, aliases: Sequence[str]) -> Outcome:
  """Refused where every sentence declines, else whether an alias is in the answer."""
  if refusals.declines(answer):
    return "refused"
  return "correct" if answers.alias_match(answer, aliases) else "wrong"


def score(
  texts: Sequence[str], examples: Sequence[Example], verifier: Verifier, settings: Scores
) -> list[Completion]:
  """Rewards completions, their sentences in one call of the verifier.

  Args:
    texts: completions as decoded.
    examples: the question of each; its aliases are the right answers.
    verifier: rewards sentences; see `verify`.
    settings: rewards of whole completions.
  """
  tags = {"think_tag": settings.think_tag, "answer_tag": settings.answer_tag}
  found = [blocks_lib.find(text, **tags) for text in texts]
  spans = [blocks_lib.sentence_spans(t, b) for t, b in zip(texts, found, strict=True)]
  sentences = [text[a:b] for text, own in zip(texts, spans, strict=True) for a, b in own]
  asked = [example for example, own in zip(examples, spans, strict=True) for _ in own]
  verdicts = iter(verifier(sentences, asked))
  completions = []
  for text, block, own, example in zip(texts, found, spans, examples, strict=True):
    start, end = block.answer or (0, 0)
    result = outcome(text[start:end].strip(), example.aliases)
    completions.append(
      Completion(
        text=text,
        blocks=block,
        spans=own,
        verdicts=[next(verdicts) for _ in own],
        outcome=result,
        judge=getattr(settings, result),
        format=settings.formatted if block.well_formed else settings.unformatted,
      )
    )
  return completions


def pack(
  completions: Sequence[Sequence[Completion]],
  token_spans: Sequence[Sequence[Sequence[tuple[int, int]]]],
  *,
  max_tokens: int,
  max_sentences: int,
) -> Rewards:
  """Arrays of a batch of B questions with G completions each.

  Args:
    completions: B lists of G.
    token_spans: the character span of each of their tokens (`alignment.token_spans`).
    max_tokens: T.
    max_sentences: S, at least the largest count.
  """
  shape = (len(completions), len(completions[0]))
  rewards = Rewards(
    local=np.zeros((*shape, max_sentences), np.float32),
    sentence_ids=np.full((*shape, max_tokens), -1, np.int32),
    judge=np.zeros(shape, np.float32),
    format=np.zeros(shape, np.float32),
  )
  for b, g in np.ndindex(shape):
    completion = completions[b][g]
    ids = alignment.sentence_ids(
      token_spans[b][g], completion.spans, text=completion.text, trailing="none"
    )
    rewards.sentence_ids[b, g, : len(ids)] = ids
    rewards.local[b, g, : len(completion.spans)] = [v.reward for v in completion.verdicts]
    rewards.judge[b, g], rewards.format[b, g] = completion.judge, completion.format
  return rewards


def token_returns(
  rewards: Rewards,
  mask: jax.Array,
  *,
  local_weight: float = 1.0,
  judge_weight: float = 1.0,
  format_weight: float = 1.0,
  unit: str = "sentence",
) -> jax.Array:
  """Each token's return; runs inside the jitted update.

  Args:
    rewards: a batch's rewards.
    mask: bool[B, G, T], tokens of the completions.
    local_weight: of the corpus (0: the paper's ablation A1).
    judge_weight: of the answer's correctness (0: A2).
    format_weight: of the tags.
    unit: `sentence`, or `answer`: every token takes its completion's mean of the corpus
      reward (A3), which leaves the completion's mean return as it is.

  Returns:
    float32[B, G, T], 0 on padding.
  """
  local = spread(jnp.asarray(rewards.local), jnp.asarray(rewards.sentence_ids))
  local = jnp.where(mask, local, 0.0)  # [B, G, T]
  if unit == "answer":
    tokens = jnp.maximum(mask.sum(2, keepdims=True), 1)
    local = jnp.broadcast_to(local.sum(2, keepdims=True) / tokens, mask.shape)
  judge, form = jnp.asarray(rewards.judge), jnp.asarray(rewards.format)
  whole = judge_weight * judge + format_weight * form  # [B, G]
  return jnp.where(mask, local_weight * local + whole[:, :, None], 0.0)


class Objective(NamedTuple):
  """The static settings of returns and advantages, read from the config's fields."""

  local_weight: float
  judge_weight: float
  format_weight: float
  unit: str
  credit: str
  eps: float
  ddof: int
  mean_tolerance: float | None
  clip: float | None


def objective(config: config_dict.ConfigDict) -> Objective:
  """Reads them from the whole config; `corver.paper_exact` switches the guards off."""
  own = config.corver
  return Objective(
    local_weight=own.local_weight,
    judge_weight=own.judge_weight,
    format_weight=own.format_weight,
    unit=own.unit,
    credit=own.credit,
    eps=config.advantage.eps,
    ddof=config.advantage.ddof,
    mean_tolerance=None if own.paper_exact else own.mean_tolerance,
    clip=None if own.paper_exact else own.advantage_clip,
  )


def token_advantages(
  rewards: Rewards, mask: jax.Array, settings: Objective
) -> tuple[jax.Array, dict[str, Weighted]]:
  """Each token's advantage, float32[B, G, T], and metrics; runs inside the jitted update.

  With `credit` "sign", the sentences' rewards only say which way a token goes: FSPO.
  """
  if settings.credit == "sign":
    return _sign_advantages(rewards, mask, settings)
  returns = token_returns(
    rewards,
    mask,
    local_weight=settings.local_weight,
    judge_weight=settings.judge_weight,
    format_weight=settings.format_weight,
    unit=settings.unit,
  )
  guards = {"mean_tolerance": settings.mean_tolerance, "clip": settings.clip}
  values = advantages.token_advantages(returns, mask, eps=settings.eps, **guards)
  return values, metrics(returns, values, mask, **guards)


def _sign_advantages(
  rewards: Rewards, mask: jax.Array, settings: Objective
) -> tuple[jax.Array, dict[str, Weighted]]:
  """GRPO on answer and format, its sign turned where a sentence's verdict disagrees."""
  judge, form = jnp.asarray(rewards.judge), jnp.asarray(rewards.format)
  whole = settings.judge_weight * judge + settings.format_weight * form  # [B, G]
  per_answer = advantages.answer_advantages(whole, eps=settings.eps, ddof=settings.ddof)
  values = fspo.sign_adjusted(per_answer, rewards.local, rewards.sentence_ids)
  values = jnp.where(mask, values, 0.0)  # [B, G, T]
  returns = jnp.broadcast_to(whole[:, :, None], mask.shape)
  return values, metrics(returns, values, mask, mean_tolerance=None, clip=None)


def metrics(
  returns: jax.Array,
  values: jax.Array,
  mask: jax.Array,
  *,
  mean_tolerance: float | None,
  clip: float | None,
) -> dict[str, Weighted]:
  """How much of a batch teaches anything, and what the two guards changed.

  Args:
    returns: float32[B, G, T].
    values: float32[B, G, T], the advantages after the guards.
    mask: bool[B, G, T].
    mean_tolerance: as given to `token_advantages`.
    clip: as given to `token_advantages`.
  """
  tokens = mask.sum()
  means = jnp.where(mask, returns, 0.0).sum(2) / jnp.maximum(mask.sum(2), 1)  # [B, G]
  answered = mask.any(2)
  high = jnp.where(answered, means, -jnp.inf).max(1)  # [B]
  low = jnp.where(answered, means, jnp.inf).min(1)
  tied = high - low <= (0.0 if mean_tolerance is None else mean_tolerance)
  clipped = jnp.zeros_like(mask) if clip is None else (jnp.abs(values) >= clip) & mask
  return {
    "corver/nonzero_tokens": Weighted(((values != 0) & mask).sum(), tokens),
    "corver/tied_groups": Weighted(tied.sum(), jnp.float32(tied.size)),
    "corver/clipped_tokens": Weighted(clipped.sum(), tokens),
  }

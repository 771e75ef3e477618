"""A credit or reward compared with the others sampled for the same question.

A group whose valid entries are all equal teaches nothing and gets exactly 0. That is
tested as max == min: the float32 standard deviation of eight 0.3s is 3e-8.
"""

from typing import Literal

import jax
import jax.numpy as jnp

QUESTION = (1, 2)  # the axes of all that was sampled for one question


def _mean(x: jax.Array, mask: jax.Array, axes: tuple) -> jax.Array:
  count = jnp.maximum(mask.sum(axes, keepdims=True), 1)
  return jnp.where(mask, x, 0.0).sum(axes, keepdims=True) / count


def _std(x: jax.Array, mask: jax.Array, axes: tuple, ddof: int) -> jax.Array:
  square = jnp.where(mask, (x - _mean(x, mask, axes)) ** 2, 0.0).sum(axes, keepdims=True)
  return jnp.sqrt(square / jnp.maximum(mask.sum(axes, keepdims=True) - ddof, 1))


def _agree(x: jax.Array, mask: jax.Array, axes: tuple, tolerance: float = 0.0) -> jax.Array:
  """Whether the valid entries, fewer than two included, agree; False if one is NaN."""
  high = jnp.where(mask, x, -jnp.inf).max(axes, keepdims=True)
  return high - jnp.where(mask, x, jnp.inf).min(axes, keepdims=True) <= tolerance


def answer_advantages(
  rewards: jax.Array,
  *,
  eps: float = 1e-6,
  ddof: int = 0,
  baseline: Literal["mean", "loo"] = "mean",
  scale: Literal["std"] | None = "std",
) -> jax.Array:
  r"""GRPO's advantage of a whole answer among the G answers of its question.

  .. math::
    A_g = \frac{r_g - b_g}{\mathrm{std}(r) + \epsilon}, \qquad
    b_g = \mathrm{mean}(r) \;\text{ or }\; \frac{1}{G - 1} \sum_{h \ne g} r_h

  Args:
    rewards: float32 [B, G].
    eps, ddof: eps is added to the population's (ddof 0) or sample's (1) standard deviation.
    baseline: `mean` of the group (GRPO), or `loo`, leave-one-out (RLOO).
    scale: `std`, or None to leave the difference as it is (Dr. GRPO).

  Returns:
    float32 [B, G]; exactly 0 where all rewards of a question are equal.

  Examples:
    >>> answer_advantages(jnp.array([[1.0, 0.0, 0.0, 1.0], [0.3, 0.3, 0.3, 0.3]]))
    Array([[ 0.99999, -0.99999, -0.99999,  0.99999],
           [ 0.     ,  0.     ,  0.     ,  0.     ]], dtype=float32)
    >>> answer_advantages(jnp.array([[1.0, 0.0, 0.5]]), baseline="loo", scale=None)
    Array([[ 0.75, -0.75,  0.  ]], dtype=float32)

  References: GRPO, arXiv:2402.03300; RLOO, arXiv:2402.14740; Dr. GRPO, arXiv:2503.20783
  """
  valid = jnp.ones(rewards.shape, bool)
  advantages = rewards - _mean(rewards, valid, (1,))  # [B, G]
  if baseline == "loo":  # r - (sum - r) / (G - 1) = (r - mean) G / (G - 1)
    advantages = advantages * (rewards.shape[1] / max(rewards.shape[1] - 1, 1))
  if scale == "std":
    advantages = advantages / (_std(rewards, valid, (1,), ddof) + eps)
  return jnp.where(_agree(rewards, valid, (1,)), 0.0, advantages)


def sentence_advantages(
  credits: jax.Array,
  mask: jax.Array,
  *,
  eps: float = 1e-6,
  ddof: int = 0,
  scale: Literal["std"] | None = "std",
) -> jax.Array:
  r"""ASC's advantage of a sentence among all sentences sampled for its question.

  .. math::
    A_s = \frac{c_s - \mathrm{mean}(c)}{\mathrm{std}(c) + \epsilon}

  Args:
    credits: float32 [B, G, S].
    mask: bool [B, G, S], real sentences; mean and std are over all of a question's.
    eps, ddof, scale: as for `answer_advantages`.

  Returns:
    float32 [B, G, S]; exactly 0 on padding and where all credits of a question are equal.

  Examples:
    >>> credits = jnp.array([[[1.0, 0.0, 1.0], [0.0, 7.0, 7.0]]])
    >>> mask = jnp.array([[[1, 1, 1], [1, 0, 0]]], bool)
    >>> sentence_advantages(credits, mask)
    Array([[[ 0.99999, -0.99999,  0.99999],
            [-0.99999,  0.     ,  0.     ]]], dtype=float32)

  References: Authored-Sentence Credit, arXiv:2610.18442
  """
  advantages = credits - _mean(credits, mask, QUESTION)  # [B, G, S]
  if scale == "std":
    advantages = advantages / (_std(credits, mask, QUESTION, ddof) + eps)
  return jnp.where(mask & ~_agree(credits, mask, QUESTION), advantages, 0.0)


def token_advantages(
  returns: jax.Array,
  mask: jax.Array,
  *,
  eps: float = 1e-4,
  mean_tolerance: float | None = 1e-6,
  clip: float | None = 5.0,
) -> jax.Array:
  r"""CorVer's advantage of a token: its return against the answers' mean returns.

  .. math::
    R_k = \mathrm{mean}_t \, G_{k,t}, \qquad
    A_{k,t} = \frac{G_{k,t} - \mathrm{mean}_k R_k}{\mathrm{std}_k R_k + \epsilon}

  Args:
    returns: float32 [B, G, T].
    mask: bool [B, G, T], tokens of the answer; a question with one answer gets 0s.
    eps: added to the sample standard deviation.
    mean_tolerance: where no R_k differ by more, all advantages are 0; None: the paper's quotient.
    clip: largest absolute advantage; None for no limit, as in the paper.

  Returns:
    float32 [B, G, T]; exactly 0 on padding and where all returns of a question are equal.

  Examples:
    >>> returns = jnp.array([[[2.0, 2.0, 1.0], [-1.0, 0.0, 9.0]]])
    >>> mask = jnp.array([[[1, 1, 0], [1, 1, 0]]], bool)
    >>> token_advantages(returns, mask).round(4)
    Array([[[ 0.7071,  0.7071,  0.    ],
            [-0.9899, -0.4242,  0.    ]]], dtype=float32)

  References: CorVer, arXiv:2605.29648
  """
  means = _mean(returns, mask, (2,))  # [B, G, 1], R_k
  answers = mask.any(2, keepdims=True)  # [B, G, 1]
  std = _std(means, answers, QUESTION, 1)  # [B, 1, 1]
  advantages = (returns - _mean(means, answers, QUESTION)) / (std + eps)  # [B, G, T]
  idle = _agree(returns, mask, QUESTION) | (answers.sum(QUESTION, keepdims=True) < 2)
  if mean_tolerance is not None:
    idle |= _agree(means, answers, QUESTION, mean_tolerance)
  if clip is not None:
    advantages = jnp.clip(advantages, -clip, clip)
  return jnp.where(mask & ~idle, advantages, 0.0)

"""The losses, as sums and denominators that micro-batches and hosts add.

A mean of means is not the mean where batches are of unequal size. Both functions
return (sum, denominator, metrics); the caller adds sums (and their gradients) and
denominators over micro-batches and hosts, and divides once.
"""

from typing import Literal

import jax
import jax.numpy as jnp

from asc_jax.types import Weighted


def grpo_loss(
  logps: jax.Array,
  old_logps: jax.Array | None,
  ref_logps: jax.Array | None,
  advantages: jax.Array,
  mask: jax.Array,
  *,
  beta: float,
  clip_low: float,
  clip_high: float,
  normalise: Literal["answer", "token", "constant"],
  constant: float | None = None,
) -> tuple[jax.Array, jax.Array, dict[str, Weighted]]:
  r"""Clipped surrogate with a KL penalty, one advantage a token.

  .. math::
    \rho_t = e^{\log\pi_t - \log\pi^{old}_t}, \quad d_t = \log\pi^{ref}_t - \log\pi_t, \quad
    \ell_t = -\min\!\big(\rho_t A_t,\, \mathrm{clip}(\rho_t, 1 - c_{low}, 1 + c_{high}) A_t\big)
      + \beta \, (e^{d_t} - d_t - 1)

  Args:
    logps: float32 [B, G, T], the policy's, differentiated.
    old_logps: float32 [B, G, T], of the policy that sampled; None for one update a batch,
      where they are the policy's own.
    ref_logps: float32 [B, G, T], the reference's; may be None where beta is 0.
    advantages: float32 [B, G, T], constants.
    mask: bool [B, G, T], tokens that carry loss; whatever others hold is ignored.
    beta: weight of the KL to the reference (k3 estimator).
    clip_low: the ratio is clipped from below at 1 - clip_low.
    clip_high: the ratio is clipped from above at 1 + clip_high.
    normalise: `answer`, the mean over answers of their mean over tokens (GRPO); `token`,
      the mean over all tokens (DAPO); `constant`, the sum over an answer's tokens divided
      by `constant`, averaged over answers (Dr. GRPO). Answers without a token do not count.
    constant: tokens an answer counts as under `constant`.

  Returns:
    (sum, denominator, metrics): float32 scalars; metrics are per token: `kl` (present with
    a reference), `ratio` and `clipped`, the share of tokens whose gradient the clip stops.

  Examples:
    >>> logps = jnp.log(jnp.array([[[0.5, 0.25, 1.0], [0.5, 1.0, 1.0]]]))
    >>> ref_logps = jnp.log(jnp.array([[[0.5, 0.5, 1.0], [0.5, 1.0, 1.0]]]))
    >>> advantages = jnp.array([[[1.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> mask = jnp.array([[[1, 1, 0], [1, 0, 0]]], bool)
    >>> total, count, metrics = grpo_loss(logps, None, ref_logps, advantages, mask, beta=0.04,
    ...     clip_low=0.2, clip_high=0.2, normalise="answer")
    >>> float(total), float(count)  # 0.04 (2 - ln 2 - 1) / 2 - 1
    (-0.99386, 2.0)

  References: GRPO, arXiv:2402.03300; DAPO, arXiv:2503.14476; Dr. GRPO, arXiv:2503.20783;
    k3, J. Schulman, Approximating KL divergence, 2020
  """
  if old_logps is None:
    old_logps = jax.lax.stop_gradient(logps)
  # Differences are masked before exp: padding must not make an inf whose gradient is NaN.
  ratio = jnp.exp(jnp.where(mask, logps - old_logps, 0.0))  # [B, G, T]
  clipped = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
  advantages = jnp.where(mask, advantages, 0.0)
  losses = -jnp.minimum(ratio * advantages, clipped * advantages)  # [B, G, T]

  tokens = mask.sum(dtype=jnp.float32)
  stopped = mask & (clipped * advantages < ratio * advantages)
  metrics = {
    "ratio": Weighted(jnp.where(mask, ratio, 0.0).sum(), tokens),
    "clipped": Weighted(stopped.sum(dtype=jnp.float32), tokens),
  }
  if ref_logps is not None:
    d = jnp.where(mask, ref_logps - logps, 0.0)
    kl = jnp.exp(d) - d - 1  # [B, G, T], 0 on padding
    losses = losses + beta * kl
    metrics["kl"] = Weighted(kl.sum(), tokens)
  elif beta:
    raise ValueError("beta is not 0, so the loss needs ref_logps")

  lengths = mask.sum(-1, dtype=jnp.float32)  # [B, G]
  answers = (lengths > 0).sum(dtype=jnp.float32)
  if normalise == "answer":
    return (losses.sum(-1) / jnp.maximum(lengths, 1)).sum(), answers, metrics
  if normalise == "token":
    return losses.sum(), tokens, metrics
  if normalise == "constant" and constant is not None:
    return losses.sum(), constant * answers, metrics
  raise ValueError(f"normalise={normalise!r} with constant={constant!r}")


def dpo_loss(
  chosen: jax.Array,
  rejected: jax.Array,
  ref_chosen: jax.Array,
  ref_rejected: jax.Array,
  *,
  beta: float,
) -> tuple[jax.Array, jax.Array, dict[str, Weighted]]:
  r"""Direct preference optimisation on pairs of answers.

  .. math::
    \ell = -\log \sigma\big(\beta (\log\pi_w - \log\pi_l - \log\pi^{ref}_w + \log\pi^{ref}_l)\big)

  Args:
    chosen: float32 [B], the policy's summed log-probability of the preferred answer.
    rejected: float32 [B], the policy's of the other answer.
    ref_chosen: float32 [B], the reference's of the preferred answer.
    ref_rejected: float32 [B], the reference's of the other answer.
    beta: how strongly the policy is held to the reference.

  Returns:
    (sum, denominator, metrics): float32 scalars; metrics are per pair: `accuracy`, the share
    of pairs ranked rightly against the reference, and `margin`, the argument of the sigmoid.

  Examples:
    >>> total, count, metrics = dpo_loss(jnp.array([-1.0, -2.0]), jnp.array([-3.0, -2.0]),
    ...     jnp.array([-2.0, -2.0]), jnp.array([-2.0, -1.0]), beta=0.5)
    >>> float(total), float(count)  # ln(1 + 1 / e) + ln(1 + 1 / sqrt(e))
    (0.78734, 2.0)

  References: DPO, arXiv:2305.18290
  """
  margin = beta * ((chosen - rejected) - (ref_chosen - ref_rejected))  # [B]
  pairs = jnp.asarray(margin.shape[0], jnp.float32)
  metrics = {
    "accuracy": Weighted((margin > 0).sum(dtype=jnp.float32), pairs),
    "margin": Weighted(margin.sum(), pairs),
  }
  return jax.nn.softplus(-margin).sum(), pairs, metrics

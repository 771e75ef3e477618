"""What a sentence or an answer earns, before it is compared with its group."""

import jax
import jax.numpy as jnp


def authored_credit(
  copied: jax.Array, vacuous: jax.Array, supported: jax.Array, mask: jax.Array
) -> jax.Array:
  r"""Credit of the sentences that are authored, not vacuous and supported.

  .. math::
    c_s = m_s \, (1 - \mathrm{copied}_s) (1 - \mathrm{vacuous}_s) \, \mathrm{supported}_s

  Args:
    copied: bool or 0/1 [B, G, S], the sentence stands in a passage.
    vacuous: bool or 0/1 [B, G, S], the question alone supports it.
    supported: bool or 0/1 [B, G, S], the passages support it.
    mask: bool [B, G, S], real sentences; whatever padding holds is ignored.

  Returns:
    float32 [B, G, S], 1 for a credited sentence, 0 for any other and padding.

  Examples:
    >>> copied = jnp.array([[[0, 1, 0], [0, 0, 0]]])
    >>> vacuous = jnp.array([[[0, 0, 1], [0, 0, 0]]])
    >>> supported = jnp.array([[[1, 1, 1], [0, 1, 1]]])
    >>> mask = jnp.array([[[1, 1, 1], [1, 1, 0]]], bool)
    >>> authored_credit(copied, vacuous, supported, mask)
    Array([[[1., 0., 0.],
            [0., 1., 0.]]], dtype=float32)

  References: Authored-Sentence Credit, arXiv:2610.18442
  """
  copied, vacuous, supported = (jnp.asarray(x, jnp.float32) for x in (copied, vacuous, supported))
  # A select, not a product: padding may hold NaN, the score of a sentence never scored.
  return jnp.where(mask, (1 - copied) * (1 - vacuous) * supported, 0.0)  # [B, G, S]


def support_share(supported: jax.Array, mask: jax.Array) -> jax.Array:
  r"""R, the share of an answer's sentences that the passages support.

  .. math::
    R = \frac{\sum_s m_s \, \mathrm{supported}_s}{\max(1, \sum_s m_s)}

  Args:
    supported: bool or 0/1 [B, G, S].
    mask: bool [B, G, S], real sentences.

  Returns:
    float32 [B, G], 0 for an answer without sentences.

  Examples:
    >>> supported = jnp.array([[[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]])
    >>> mask = jnp.array([[[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]], bool)
    >>> support_share(supported, mask)
    Array([[0.5, 1. , 0. ]], dtype=float32)
  """
  total = jnp.where(mask, jnp.asarray(supported, jnp.float32), 0.0).sum(-1)  # [B, G]
  return total / jnp.maximum(mask.sum(-1), 1)


def copy_penalised(R: jax.Array, copy: jax.Array, weight: float) -> jax.Array:
  r"""The copy-penalty baseline's reward of an answer.

  .. math::
    R - \lambda \, \mathrm{Copy}

  Args:
    R: float32 [B, G], the share of supported sentences.
    copy: float32 [B, G], the share of words inside a verbatim match.
    weight: lambda.

  Returns:
    float32 [B, G].

  Examples:
    >>> copy_penalised(jnp.array([[1.0, 0.5]]), jnp.array([[0.5, 0.0]]), 0.5)
    Array([[0.75, 0.5 ]], dtype=float32)
  """
  return R - weight * copy

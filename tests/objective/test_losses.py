"""Losses and their gradients against plain torch; sums add over parts of a batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from asc_jax.objective.losses import dpo_loss, grpo_loss

B, G, T = 4, 3, 6
KEYWORDS = {"beta": 0.3, "clip_low": 0.2, "clip_high": 0.28}


@pytest.fixture
def batch():
  rng = np.random.default_rng(7)
  logps = -rng.random((B, G, T)).astype(np.float32)
  old = logps + rng.normal(0, 0.3, (B, G, T)).astype(
    np.float32
  )  # ratios on both sides of the clips
  ref = logps + rng.normal(0, 0.5, (B, G, T)).astype(np.float32)
  advantages = rng.normal(size=(B, G, T)).astype(np.float32)
  lengths = rng.integers(1, T + 1, (B, G))
  lengths[1, 2] = 0  # an answer that was dropped
  mask = np.arange(T) < lengths[..., None]
  return logps, old, ref, advantages, mask


def torch_grpo(logps, old, ref, advantages, mask, normalise, constant):
  """One answer after the other, over its own tokens only, in float64."""
  logps = torch.tensor(logps, dtype=torch.float64, requires_grad=True)
  old, ref, advantages = (torch.tensor(x, dtype=torch.float64) for x in (old, ref, advantages))
  parts, tokens, kls, stopped = [], 0, [], 0
  for b, g in np.ndindex(B, G):
    keep = torch.tensor(mask[b, g])
    if not keep.any():
      continue
    new, adv = logps[b, g][keep], advantages[b, g][keep]
    ratio = torch.exp(new - old[b, g][keep])
    surrogate = torch.min(ratio * adv, torch.clamp(ratio, 0.8, 1.28) * adv)
    stopped += int(((adv > 0) & (ratio > 1.28) | (adv < 0) & (ratio < 0.8)).sum())
    delta = ref[b, g][keep] - new
    kl = torch.exp(delta) - delta - 1
    parts.append(-surrogate + KEYWORDS["beta"] * kl)
    kls.append(kl)
    tokens += len(new)
  if normalise == "answer":
    loss = torch.stack([p.mean() for p in parts]).mean()
  elif normalise == "token":
    loss = torch.cat(parts).mean()
  else:
    loss = torch.stack([p.sum() / constant for p in parts]).mean()
  loss.backward()
  return loss.item(), logps.grad.numpy(), torch.cat(kls).mean().item(), stopped / tokens


@pytest.mark.parametrize("normalise", ["answer", "token", "constant"])
def test_grpo_loss_and_gradient_equal_torch(batch, normalise):
  logps, *rest = batch
  constant = 11.0 if normalise == "constant" else None

  @jax.jit
  def mean(logps):
    total, count, metrics = grpo_loss(
      logps, *rest, normalise=normalise, constant=constant, **KEYWORDS
    )
    return total / count, metrics

  (loss, metrics), gradient = jax.value_and_grad(mean, has_aux=True)(logps)
  expected, expected_gradient, kl, clipped = torch_grpo(*batch, normalise, constant)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-7)
  assert 0 < clipped < 1  # both branches of the clip are in the batch
  np.testing.assert_allclose(metrics["kl"].total / metrics["kl"].weight, kl, rtol=1e-5)
  np.testing.assert_allclose(metrics["clipped"].total / metrics["clipped"].weight, clipped)


@pytest.mark.parametrize("normalise", ["answer", "token", "constant"])
@pytest.mark.parametrize("parts", [2, 4])
def test_micro_batches_add_up(batch, normalise, parts):
  keywords = KEYWORDS | {"normalise": normalise, "constant": 11.0}

  def total(logps, *rest):
    return grpo_loss(logps, *rest, **keywords)[0]

  whole = grpo_loss(*batch, **keywords)
  gradient = jax.grad(total)(*batch)
  pieces = [[x[i : i + B // parts] for x in batch] for i in range(0, B, B // parts)]
  results = [grpo_loss(*piece, **keywords) for piece in pieces]
  gradients = np.concatenate([jax.grad(total)(*piece) for piece in pieces])
  np.testing.assert_allclose(sum(r[0] for r in results), whole[0], rtol=1e-6)
  assert sum(r[1] for r in results) == whole[1]  # counts add without error
  np.testing.assert_array_equal(gradients, gradient)
  for name, metric in whole[2].items():
    np.testing.assert_allclose(sum(r[2][name].total for r in results), metric.total, rtol=1e-5)
    assert sum(r[2][name].weight for r in results) == metric.weight


def test_one_update_a_batch_has_ratio_one_and_the_policy_gradient(batch):
  logps, _, _, advantages, mask = batch

  def total(logps):
    return grpo_loss(
      logps, None, None, advantages, mask, beta=0.0, clip_low=0.2, clip_high=0.2, normalise="token"
    )

  value, _, metrics = total(logps)
  np.testing.assert_allclose(value, -advantages[mask].sum(), rtol=1e-5)
  assert metrics["ratio"].total == metrics["ratio"].weight == mask.sum()
  assert metrics["clipped"].total == 0 and "kl" not in metrics
  gradient = jax.grad(lambda x: total(x)[0])(logps)
  np.testing.assert_array_equal(gradient, np.where(mask, -advantages, 0.0))


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e6])
def test_padding_changes_neither_loss_nor_gradient(batch, junk):
  *arrays, mask = batch
  dirty = [np.where(mask, x, np.float32(junk)) for x in arrays]

  def total(logps, *rest):
    return grpo_loss(logps, *rest, mask, normalise="answer", **KEYWORDS)[0]

  clean = jax.value_and_grad(total)(*arrays)
  for a, b in zip(clean, jax.value_and_grad(total)(*dirty), strict=True):
    np.testing.assert_array_equal(a, b)


def test_what_a_loss_lacks_is_named(batch):
  logps, old, _, advantages, mask = batch
  with pytest.raises(ValueError, match="ref_logps"):
    grpo_loss(logps, old, None, advantages, mask, normalise="token", **KEYWORDS)
  with pytest.raises(ValueError, match="constant"):
    grpo_loss(*batch, normalise="constant", **KEYWORDS)
  with pytest.raises(ValueError, match="tokens"):
    grpo_loss(*batch, normalise="tokens", **KEYWORDS)


def test_dpo_equals_torch():
  rng = np.random.default_rng(3)
  arrays = [(-50 * rng.random(5)).astype(np.float32) for _ in range(4)]
  beta = 0.1
  total, pairs, metrics = jax.jit(lambda *a: dpo_loss(*a, beta=beta))(*arrays)
  gradients = jax.grad(lambda *a: dpo_loss(*a, beta=beta)[0], argnums=(0, 1))(*arrays)

  tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in arrays]
  policy, reference = tensors[0] - tensors[1], tensors[2] - tensors[3]
  losses = -torch.nn.functional.logsigmoid(beta * (policy - reference))
  losses.sum().backward()
  np.testing.assert_allclose(total, losses.sum().item(), rtol=1e-5)
  assert pairs == 5
  for ours, tensor in zip(gradients, tensors, strict=False):
    np.testing.assert_allclose(ours, tensor.grad.numpy(), rtol=1e-4, atol=1e-7)
  right = (policy > reference).double().mean().item()
  assert 0 < right < 1
  np.testing.assert_allclose(metrics["accuracy"].total / metrics["accuracy"].weight, right)
  np.testing.assert_allclose(
    metrics["margin"].total, (beta * (policy - reference)).sum().item(), rtol=1e-4
  )


def test_dpo_stays_finite_far_from_the_boundary():
  far = jnp.array([-1e4, 0.0])
  total, _, _ = dpo_loss(far, far[::-1], jnp.zeros(2), jnp.zeros(2), beta=1.0)
  np.testing.assert_allclose(total, 1e4, rtol=1e-6)

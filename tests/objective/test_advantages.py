"""Advantages against float64 NumPy loops over questions, and the paper's worked example."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asc_jax.objective.advantages import answer_advantages, sentence_advantages, token_advantages
from asc_jax.objective.credit import authored_credit, support_share

B, G, S, T = 3, 4, 5, 7
SEEDS = st.integers(0, 2**32 - 1)
quick = settings(max_examples=25, deadline=None)


def standardised(values, eps, ddof, scale):
  """(x - mean) / (std + eps) of one group; 0 where the group is constant."""
  values = np.asarray(values, np.float64)
  if len(values) < 2 or values.max() == values.min():
    return np.zeros(len(values))
  deviation = values - values.mean()
  return deviation / (values.std(ddof=ddof) + eps) if scale == "std" else deviation


def draw(rng, shape):
  """Rewards with many ties, so that constant groups come up."""
  return rng.choice([0.0, 0.3, 1.0], shape).astype(np.float32)


@pytest.mark.parametrize("baseline", ["mean", "loo"])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("scale", ["std", None])
def test_answer_advantages_equal_a_loop(baseline, ddof, scale):
  function = jax.jit(
    functools.partial(answer_advantages, eps=1e-3, ddof=ddof, baseline=baseline, scale=scale)
  )

  @quick
  @given(SEEDS)
  def check(seed):
    rewards = draw(np.random.default_rng(seed), (B, G))
    ours = function(rewards)
    for b in range(B):
      group = rewards[b].astype(np.float64)
      expected = np.zeros(G)
      for g in range(G):
        others = group.sum() - group[g]
        base = group.mean() if baseline == "mean" else others / (G - 1)
        if group.max() > group.min():
          expected[g] = (group[g] - base) / ((group.std(ddof=ddof) + 1e-3) if scale else 1)
      np.testing.assert_allclose(ours[b], expected, rtol=1e-5, atol=1e-6)

  check()


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("scale", ["std", None])
def test_sentence_advantages_equal_a_loop(ddof, scale):
  function = jax.jit(functools.partial(sentence_advantages, eps=1e-3, ddof=ddof, scale=scale))

  @quick
  @given(SEEDS)
  def check(seed):
    rng = np.random.default_rng(seed)
    credits, mask = draw(rng, (B, G, S)), rng.random((B, G, S)) < 0.6
    ours = np.asarray(function(credits, mask))
    for b in range(B):
      expected = standardised(credits[b][mask[b]], 1e-3, ddof, scale)
      np.testing.assert_allclose(ours[b][mask[b]], expected, rtol=1e-5, atol=1e-6)
    assert (ours[~mask] == 0).all()

  check()


@pytest.mark.parametrize("exact", [False, True], ids=["default", "paper_exact"])
def test_token_advantages_equal_a_loop(exact):
  keywords = {"mean_tolerance": None, "clip": None} if exact else {}
  function = jax.jit(functools.partial(token_advantages, **keywords))

  @quick
  @given(SEEDS)
  def check(seed):
    rng = np.random.default_rng(seed)
    returns = rng.normal(size=(B, G, T)).astype(np.float32)
    returns[0] = np.float32(rng.normal())  # one constant question
    returns[1, :, ::2], returns[1, :, 1::2] = 1.0, -1.0
    mask = rng.random((B, G, T)) < 0.7
    mask[1] = [1, 1, 1, 1, 0, 0, 0]  # every answer's mean is 0, its tokens are not
    mask[2, 1:] &= rng.random() < 0.8  # at times one answer only
    ours = np.asarray(function(returns, mask))
    for b in range(B):
      answers = [g for g in range(G) if mask[b, g].any()]
      means = [returns[b, g][mask[b, g]].astype(np.float64).mean() for g in answers]
      valid = returns[b][mask[b]]
      expected = np.zeros((G, T))
      agree = not exact and len(answers) > 1 and np.ptp(means) <= 1e-6
      if len(answers) > 1 and valid.max() > valid.min() and not agree:
        expected = (returns[b] - np.mean(means)) / (np.std(means, ddof=1) + 1e-4)
        expected = expected if exact else np.clip(expected, -5.0, 5.0)
      np.testing.assert_allclose(ours[b], np.where(mask[b], expected, 0.0), rtol=2e-4, atol=1e-5)

  check()


def test_the_papers_worked_example():
  """Half of the group's sentences credited: +1.0 and -1.0, where GRPO gives an answer +0.5.

  Four of five answers have the passages' support, so that R raises all of their sentences
  alike; but two of those are copied and one follows from the question alone.
  """
  copied = jnp.array([[[0, 1], [0, 0], [1, 0], [0, 0], [0, 0]]])
  vacuous = jnp.array([[[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]])
  supported = jnp.array([[[1, 1], [1, 1], [1, 1], [1, 1], [0, 0]]])
  mask = jnp.ones((1, 5, 2), bool)
  credit = authored_credit(copied, vacuous, supported, mask)
  np.testing.assert_array_equal(credit, [[[1, 0], [0, 1], [0, 1], [1, 1], [0, 0]]])
  assert credit.mean() == 0.5
  np.testing.assert_allclose(
    sentence_advantages(credit, mask), [[[1, -1], [-1, 1], [-1, 1], [1, 1], [-1, -1]]], atol=1e-5
  )
  R = support_share(supported, mask)
  np.testing.assert_allclose(answer_advantages(R), [[0.5, 0.5, 0.5, 0.5, -2.0]], atol=1e-5)


def test_equal_credits_give_exactly_zero():
  """With eps = 0 the plain quotient is 0 / 0, or 1 where rounding makes the std of 0.3s 3e-8."""
  eight = jnp.full((2, 8), 0.3)
  for ddof in (0, 1):
    assert not answer_advantages(eight, eps=0.0, ddof=ddof).any()
    sentences = eight.reshape(2, 4, 2)
    assert not sentence_advantages(sentences, jnp.ones((2, 4, 2), bool), eps=0.0, ddof=ddof).any()
  for tolerance in (None, 1e-6):
    tokens = eight.reshape(2, 2, 4)
    mask = jnp.ones((2, 2, 4), bool).at[0, 0, 3].set(False)
    assert not token_advantages(tokens, mask, mean_tolerance=tolerance).any()


def test_one_valid_entry_or_none_gives_zero():
  credits = jnp.array([[[0.7, 3.0], [9.0, 2.0]], [[0.7, 3.0], [9.0, 2.0]]])
  mask = jnp.array([[[True, False], [False, False]], [[False, False], [False, False]]])
  for ddof in (0, 1):
    assert not sentence_advantages(credits, mask, ddof=ddof).any()
    assert not answer_advantages(jnp.array([[0.7], [1.0]]), ddof=ddof, baseline="loo").any()
  assert not token_advantages(credits, mask, mean_tolerance=None, clip=None).any()
  one_answer = jnp.array([[[True, True], [False, False]]] * 2)
  assert not token_advantages(credits, one_answer, mean_tolerance=None, clip=None).any()


def test_nothing_leaks_from_padding_or_from_another_question():
  rng = np.random.default_rng(0)
  credits, mask = rng.random((B, G, S)).astype(np.float32), rng.random((B, G, S)) < 0.5
  whole = sentence_advantages(credits, mask)
  for b in range(B):
    alone = sentence_advantages(np.where(mask, credits, np.nan)[b : b + 1], mask[b : b + 1])
    np.testing.assert_allclose(whole[b], alone[0], rtol=1e-6)


def test_a_broken_reward_is_not_hidden_as_zero():
  rewards = jnp.array([[0.0, jnp.nan], [0.0, 1.0]])
  advantages = answer_advantages(rewards)
  assert jnp.isnan(advantages[0]).all() and jnp.isfinite(advantages[1]).all()
  sentences = sentence_advantages(rewards[:, :, None], jnp.ones((2, 2, 1), bool))
  assert jnp.isnan(sentences[0]).all() and jnp.isfinite(sentences[1]).all()


def test_if_none_earns_every_weight_is_zero_and_if_one_does_the_others_are_negative():
  mask = jnp.array([[[1, 1, 0], [1, 1, 1]]], bool)
  credits = jnp.zeros((1, 2, 3))
  assert not sentence_advantages(credits, mask).any()
  advantages = np.asarray(sentence_advantages(credits.at[0, 1, 2].set(1.0), mask))
  assert advantages[0, 1, 2] > 0
  assert (advantages[np.asarray(mask)] < 0).sum() == 4

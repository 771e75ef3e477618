"""The sampler against the update's log-probabilities, NumPy loops, and itself in other batches."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax.models import decoder
from asc_jax.rl import sampler
from asc_jax.rl.sampler import Sampling

SETTINGS = Sampling(group_size=3, max_tokens=9, temperature=0.8, stop_ids=(5, 17, 23, 40))


@pytest.fixture(scope="module")
def drawn(policy, prompts):
  return sampler.sample(policy, prompts, jax.random.key(0), SETTINGS._replace(top_p=0.9))


def real(rollout):
  return np.arange(rollout.tokens.shape[2]) < np.asarray(rollout.lengths)[..., None]


def test_log_probabilities_are_the_updates(policy, prompts, drawn):
  lengths = np.asarray(drawn.lengths)
  assert len(set(lengths.ravel())) > 2, "ends of unequal length were wanted"
  taught = decoder.answer_log_probs(
    policy, prompts.tokens, prompts.lengths, drawn.tokens, temperature=0.8, chunk=8
  )
  gap = np.abs(np.asarray(taught) - np.asarray(drawn.logps))[real(drawn)]
  assert gap.max() < 1e-4
  # The comparison can fail: another temperature's log-probabilities are elsewhere.
  other = decoder.answer_log_probs(
    policy, prompts.tokens, prompts.lengths, drawn.tokens, temperature=1.0, chunk=8
  )
  assert np.abs(np.asarray(other) - np.asarray(drawn.logps))[real(drawn)].max() > 0.05


def test_answers_end_at_stop_tokens_and_are_zero_after(drawn):
  tokens, lengths = np.asarray(drawn.tokens), np.asarray(drawn.lengths)
  for index in np.ndindex(lengths.shape):
    row, length = tokens[index], lengths[index]
    stops = [t for t in range(9) if row[t] in SETTINGS.stop_ids]
    assert length == (stops[0] + 1 if stops else 9)
    assert bool(drawn.finished[index]) == bool(stops)
    assert not row[length:].any()
    assert not np.asarray(drawn.logps)[index][length:].any()


def test_a_question_draws_the_same_answers_in_any_company(policy, prompts):
  whole = sampler.sample(policy, prompts, jax.random.key(4), SETTINGS)
  order = np.array([2, 0, 3, 1])
  mixed = sampler.sample(
    policy, jax.tree.map(lambda x: x[order], prompts), jax.random.key(4), SETTINGS
  )
  for a, b in zip(jax.tree.map(lambda x: np.asarray(x)[order], whole), mixed, strict=True):
    np.testing.assert_array_equal(a, b)
  assert len({tuple(row) for row in np.asarray(whole.tokens).reshape(12, -1)}) > 6
  others = sampler.sample(policy, prompts, jax.random.key(5), SETTINGS)
  assert (np.asarray(others.tokens) != np.asarray(whole.tokens)).any()


def test_greedy_takes_the_likeliest_token(policy, prompts):
  greedy = sampler.sample(policy, prompts, jax.random.key(0), SETTINGS._replace(temperature=0.0))
  tokens = np.asarray(greedy.tokens)
  assert (tokens == tokens[:, :1]).all(), "the answers of a question agree"
  for b in range(4):
    length = int(greedy.lengths[b, 0])
    prefix = decoder.prefill(policy, prompts.tokens[b : b + 1], prompts.lengths[b : b + 1])
    inputs = decoder.answer_inputs(
      prompts.tokens[b : b + 1], prompts.lengths[b : b + 1], greedy.tokens[b : b + 1, :1]
    )
    hidden, _ = decoder.extend(policy, prefix, inputs, 0)
    best = np.asarray(jnp.argmax(decoder.logits(policy, hidden), -1))[0, 0]
    np.testing.assert_array_equal(tokens[b, 0, :length], best[:length])


def truncate_loop(logits, top_k, top_p):
  """The sampler's truncation, one row at a time, in float64."""
  kept = sorted(range(len(logits)), key=lambda i: -logits[i])
  if top_k:
    kept = kept[:top_k]
  weights = np.exp(np.float64(logits[kept]))
  weights /= weights.sum()
  total, nucleus = 0.0, []
  for i, weight in zip(kept, weights, strict=True):
    if total >= top_p:
      break
    nucleus.append(i)
    total += weight
  return set(nucleus)


@hypothesis.given(
  st.integers(0, 2**31), st.integers(0, 7), st.sampled_from([0.05, 0.31, 0.6, 0.93, 1.0])
)
@hypothesis.settings(deadline=None, max_examples=40)
def test_truncation_keeps_top_k_then_the_nucleus(seed, top_k, top_p):
  logits = np.random.default_rng(seed).normal(size=11).astype(np.float32)
  kept = np.isfinite(np.asarray(sampler.truncate(jnp.asarray(logits), top_k, top_p)))
  assert set(np.flatnonzero(kept)) == truncate_loop(logits, top_k, top_p)


def test_draws_follow_the_distribution():
  """20,000 draws at temperature 0.5 against the softmax, within four standard errors."""
  logits = jnp.asarray([[[0.3, -1.0, 1.1, 0.0]]])
  keys = jax.random.split(jax.random.key(0), 20_000)[:, None, None]
  settings = Sampling(1, 1, temperature=0.5)
  tokens, logps = jax.vmap(lambda k: sampler.draw(logits, k, settings))(keys)
  wanted = np.exp(np.array([0.6, -2.0, 2.2, 0.0]))
  wanted /= wanted.sum()
  seen = np.bincount(np.asarray(tokens).ravel(), minlength=4) / 20_000
  assert (np.abs(seen - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 20_000)).all()
  np.testing.assert_allclose(
    np.exp(np.asarray(logps).ravel()), wanted[np.asarray(tokens).ravel()], rtol=1e-5
  )

"""The decoder against itself in pieces; against torch it is held in test_families.py."""

import dataclasses

import hf_reference as hf
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from asc_jax.models import checkpoints, decoder
from asc_jax.models.layers import AttentionConfig, Rope

VOCAB = hf.VOCAB
B, G, P, T = 2, 3, 9, 5
LENGTHS = np.array([6, 9], np.int32)


@pytest.fixture(scope="module")
def state():
  """Weights whose next token is far from uniform."""
  kind = AttentionConfig(6, 2, 16, Rope(10_000.0), qk_norm="head")
  config = decoder.DecoderConfig("qwen3", VOCAB, 48, 80, 3, (kind,))
  keys = iter(jax.random.split(jax.random.key(1), 100))
  fresh = decoder.init(config, jax.random.key(0))
  return fresh.with_trainable(
    jax.tree.map(lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), fresh.params)
  )


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, VOCAB, (B, P)).astype(np.int32)
  answers = rng.integers(0, VOCAB, (B, G, T)).astype(np.int32)
  return tokens, answers


log_probs = jax.jit(decoder.answer_log_probs, static_argnames="chunk")


@jax.jit
def run(state, tokens, answers, lengths=LENGTHS):
  """Hidden states by prefill and extend."""
  prefix = decoder.prefill(state, tokens, lengths)
  inputs = decoder.answer_inputs(tokens, lengths, answers)
  return decoder.extend(state, prefix, inputs, 0)[0]


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
  """(torch model, the same here), whose head is the embedding."""
  model = hf.build("qwen2")
  return model, checkpoints.load(hf.save(model, tmp_path_factory.mktemp("tied")))[0]


@pytest.mark.parametrize("chunk", [1, 12, 4096])
def test_answer_log_probs_are_torchs_log_softmax(tied, batch, chunk):
  """In chunks that do and do not divide the answer."""
  model, state = tied
  tokens, answers = batch
  got = log_probs(state, tokens, LENGTHS, answers, temperature=0.7, chunk=chunk)
  for b, n in enumerate(LENGTHS):
    for g in range(G):
      logits = hf.logits(model, np.concatenate([tokens[b, :n], answers[b, g]]))[n - 1 : -1]
      wanted = torch.log_softmax(torch.tensor(logits) / 0.7, -1).numpy()[range(T), answers[b, g]]
      np.testing.assert_allclose(got[b, g], wanted, rtol=0, atol=1e-4)


def loss_and_gradients(state, tokens, lengths, answers):
  @jax.jit
  def both(params):
    logps = decoder.answer_log_probs(
      state.with_trainable(params), tokens, lengths, answers, temperature=0.7, chunk=12
    )
    return jnp.mean(logps**2)

  return jax.value_and_grad(both)(state.params)


@pytest.fixture(scope="module")
def repeated(state, batch):
  """One row for each answer, its prompt in front: G = 1."""
  tokens, answers = batch
  return loss_and_gradients(
    state,
    np.repeat(tokens, G, axis=0),
    np.repeat(LENGTHS, G, axis=0),
    answers.reshape(B * G, 1, T),
  )


@pytest.mark.parametrize("remat", ["block", "dots", "none"])
def test_shared_prefix_equals_the_repeated_prompt(state, batch, repeated, remat):
  """The loss and every gradient leaf, whatever the backward pass recomputes."""
  tokens, answers = batch
  state = dataclasses.replace(state, config=dataclasses.replace(state.config, remat=remat))
  shared = loss_and_gradients(state, tokens, LENGTHS, answers)
  np.testing.assert_allclose(shared[0], repeated[0], rtol=1e-5)
  for ours, theirs in zip(*(jax.tree.leaves(x[1]) for x in (shared, repeated)), strict=True):
    assert np.linalg.norm(ours - theirs) <= 1e-4 * np.linalg.norm(theirs)


def test_padding_ids_change_no_bit(state, batch):
  tokens, answers = batch
  other = np.where(np.arange(P)[None] < LENGTHS[:, None], tokens, (tokens + 1) % VOCAB)
  assert (other != tokens).any()
  logps = [
    log_probs(state, x, LENGTHS, answers, temperature=1.0, chunk=12) for x in (tokens, other)
  ]
  np.testing.assert_array_equal(*logps)
  np.testing.assert_array_equal(run(state, tokens, answers), run(state, other, answers))


def test_a_longer_bucket_and_padding_that_equals_a_real_id_are_harmless(state, batch):
  """The end-of-answer id often pads too: masks must not come from ids."""
  tokens, answers = batch
  stop = tokens[0, 2]
  padded = np.full((B, P + 4), stop, np.int32)
  for b, n in enumerate(LENGTHS):
    padded[b, :n] = tokens[b, :n]
  np.testing.assert_allclose(
    run(state, padded, answers), run(state, tokens, answers), rtol=0, atol=1e-5
  )


def test_a_prompt_of_one_token_has_an_empty_prefix(state, batch):
  tokens, answers = batch
  lengths = np.ones((B,), np.int32)
  hidden = run(state, tokens, answers, lengths)
  alone = run(state, tokens[:, :1], answers, lengths)
  assert np.isfinite(hidden).all()
  np.testing.assert_allclose(hidden, alone, rtol=0, atol=1e-5)


def test_state_passes_through_jit_and_compiles_once(state):
  traces = 0

  @jax.jit
  def double(state):
    nonlocal traces
    traces += 1
    return state.with_trainable(jax.tree.map(lambda x: 2 * x, state.trainable()))

  twice = double(double(state))
  assert traces == 1
  assert twice.config == state.config
  np.testing.assert_allclose(
    twice.params["embed"]["embedding"], 4 * state.params["embed"]["embedding"]
  )


def test_bfloat16_compute_keeps_float32_parameters_and_log_probs(state, batch):
  tokens, answers = batch
  low = dataclasses.replace(state, config=dataclasses.replace(state.config, dtype="bfloat16"))
  exact, logps = (
    log_probs(s, tokens, LENGTHS, answers, temperature=1.0, chunk=12) for s in (state, low)
  )
  assert logps.dtype == jnp.float32
  assert run(low, tokens, answers).dtype == jnp.bfloat16
  error = np.abs(logps - exact)
  assert 1e-4 < error.mean() < 0.1 * np.abs(exact).mean()

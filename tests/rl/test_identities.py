"""Methods that must agree where their definitions do, each side against literals as well."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from asc_jax import config as config_lib
from asc_jax.objective.advantages import answer_advantages, sentence_advantages
from asc_jax.rl import update
from asc_jax.types import Scores, Sentences


def sentences_of(ids, mask, copied=None, copy_share=None):
  """Complete, authored sentences of one question unless told."""
  ids, mask = np.asarray([ids], np.int32), np.asarray([mask], bool)
  return Sentences(
    ids=ids,
    mask=mask,
    pseudo=np.zeros_like(mask),
    complete=np.ones_like(mask),
    copied=np.zeros_like(mask) if copied is None else np.asarray([copied], bool),
    copy_share=np.zeros(mask.shape[:2], np.float32) if copy_share is None else copy_share,
  )


def advantages(method, sentences, scores, **changes):
  """Token advantages float32[G, T] of one question under a preset with changes."""
  config = config_lib.apply_method(config_lib.default_config(), method)
  for name, value in changes.items():
    config_lib.assign(config, name.replace("__", "."), value)
  config_lib.validate(config)
  settings = update.objective(config)
  kept = update.scored(sentences, scores, settings)
  credit, _ = update.credits(kept, scores, settings)
  return np.asarray(update.unit_advantages(kept, credit, settings)[1])[0]


@pytest.mark.parametrize("scale", ["std", None])
@pytest.mark.parametrize("ddof", [0, 1])
def test_one_sentence_an_answer_is_grpo(scale, ddof):
  """Rewards 1, 0, 0, 0: mean 1/4, population std sqrt(3)/4, sample std 1/2."""
  rewards = jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])  # [B, G]
  options = {"eps": 0.0, "ddof": ddof, "scale": scale}
  by_answer = answer_advantages(rewards, **options)
  by_sentence = sentence_advantages(rewards[:, :, None], jnp.ones((2, 4, 1), bool), **options)
  np.testing.assert_array_equal(by_sentence[:, :, 0], by_answer)
  expected = {
    ("std", 0): [3**0.5, -(3**-0.5)],
    ("std", 1): [1.5, -0.5],
    (None, 0): [0.75, -0.25],
    (None, 1): [0.75, -0.25],
  }[scale, ddof]
  np.testing.assert_allclose(by_answer[0], [expected[0], *3 * [expected[1]]], rtol=1e-6)


def test_asc_with_one_sentence_an_answer_is_its_answer_level_twin():
  """Through the credit and onto the tokens; two of three answers earn."""
  sentences = sentences_of([[0, 0], [0, 0], [0, 0]], [[1, 0], [1, 0], [1, 0]])
  supported = np.array([[[0.9, np.nan], [0.2, np.nan], [0.8, np.nan]]], np.float32)
  scores = Scores(supported, np.zeros_like(supported))
  by_sentence = advantages("asc", sentences, scores)
  by_answer = advantages("asc_answer", sentences, scores)
  np.testing.assert_array_equal(by_sentence, by_answer)
  high, low = 2**-0.5, -(2**0.5)  # credits 1, 0, 1: mean 2/3, std sqrt(2)/3
  np.testing.assert_allclose(by_sentence, [[high] * 2, [low] * 2, [high] * 2], rtol=1e-5)


@pytest.mark.parametrize("credited", [0.0, 1.0])
@pytest.mark.parametrize("method", ["asc", "asc_answer", "sentence_reward", "grpo_kl", "rloo"])
def test_a_group_that_agrees_teaches_nothing(method, credited):
  """All credited or none, in answers of one, two and three sentences; exactly 0, eps 0 too."""
  mask = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
  sentences = sentences_of([[0, 0, 0], [0, 1, 1], [0, 1, 2]], mask)
  supported = np.where(np.array([mask]) > 0, credited, np.nan).astype(np.float32)
  scores = Scores(supported, np.zeros_like(supported))
  found = advantages(method, sentences, scores, advantage__eps=0.0)
  np.testing.assert_array_equal(found, np.zeros((3, 3)))


def mixed():
  """Answer 0: authored, copied, vacuous sentences; answer 1: unsupported, authored; all else supported."""
  sentences = sentences_of(
    [[0, 1, 2, 2], [0, 0, 1, -1]], [[1, 1, 1], [1, 1, 0]], copied=[[0, 1, 0], [0, 0, 0]]
  )
  scores = Scores(
    np.array([[[0.9, 0.9, 0.9], [0.1, 0.9, np.nan]]], np.float32),
    np.array([[[0.1, 0.1, 0.9], [0.1, 0.1, np.nan]]], np.float32),
  )
  return sentences, scores


def test_asc_without_authored_and_vacuity_tests_is_sentence_reward():
  """Credits 1 1 1 | 0 1: mean 4/5, std 2/5, so 1/2 and -2."""
  without = advantages("asc", *mixed(), credit__authored=False, credit__vacuous=False)
  np.testing.assert_array_equal(without, advantages("sentence_reward", *mixed()))
  np.testing.assert_allclose(without, [[0.5, 0.5, 0.5, 0.5], [-2, -2, 0.5, 0]], rtol=1e-5)
  # With both tests credits are 1 0 0 | 0 1: mean 2/5, std sqrt(6)/5.
  high, low = 3 / 6**0.5, -2 / 6**0.5
  np.testing.assert_allclose(
    advantages("asc", *mixed()), [[high, low, low, low], [low, low, high, 0]], rtol=1e-5
  )


@pytest.mark.parametrize(
  ("name", "credit"),
  [
    ("authored", [[1, 1, 0], [0, 1]]),
    ("vacuous", [[1, 0, 1], [0, 1]]),
    ("supported", [[1, 0, 0], [1, 1]]),
  ],
)
def test_each_preset_without_one_test_is_asc_with_it_off(name, credit):
  found = advantages(f"asc_without_{name}", *mixed())
  np.testing.assert_array_equal(found, advantages("asc", *mixed(), **{f"credit__{name}": False}))
  values = np.array(list(itertools.chain(*credit)))
  a = (values - values.mean()) / values.std()
  np.testing.assert_allclose(
    found, [[a[0], a[1], a[2], a[2]], [a[3], a[3], a[4], 0]], rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize("unit", ["sentence", "answer"])
def test_no_penalty_and_no_kl_leave_the_plain_method(unit):
  """R - 0 * Copy is R; leave-one-out is GRPO's difference times G / (G - 1)."""
  sentences, scores = mixed()
  if unit == "answer":
    plain = advantages("grpo", sentences, scores)
    np.testing.assert_array_equal(
      plain, advantages("copy_penalty", sentences, scores, credit__copy_weight=0.0)
    )
    np.testing.assert_array_equal(plain, advantages("grpo_kl", sentences, scores))
    np.testing.assert_allclose(plain, [[1] * 4, [-1] * 4], rtol=1e-5)  # R 1 and 1/2
    unscaled = advantages("dr_grpo", sentences, scores)
    np.testing.assert_allclose(unscaled, [[0.25] * 4, [-0.25] * 4], rtol=1e-6)
    np.testing.assert_allclose(advantages("rloo", sentences, scores), 2 * unscaled, rtol=1e-6)
  else:
    plain = advantages("asc", sentences, scores)
    sample = advantages("asc", sentences, scores, advantage__ddof=1)
    np.testing.assert_allclose(sample, plain * (4 / 5) ** 0.5, rtol=1e-5)

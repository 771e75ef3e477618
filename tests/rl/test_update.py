"""One batch to one step: credit flags, micro-batches, meshes, learning on a replayed batch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_distance import relative

from asc_jax import config as config_lib
from asc_jax import sharding
from asc_jax.rl import update
from asc_jax.types import Sample, Scores, Sentences


def gradients_of(model, batch, config):
  return jax.jit(functools.partial(update.gradients, settings=update.objective(config)))(
    model, batch
  )


@pytest.mark.parametrize("normalise", ["answer", "token", "constant"])
def test_one_batch_equals_its_micro_batches(policy, adapted, batch, settings_config, normalise):
  """Answers of unequal length and unequal truncation, so that a mean of means would differ."""
  settings_config.loss.update({"normalise": normalise, "constant": 5.0})
  settings_config.rollout.truncated = "drop"
  mask = batch.token_mask & batch.rollout.finished[..., None]
  batch = batch._replace(token_mask=mask)
  batch = batch._replace(
    ref_logps=update.log_probs(
      policy, batch.prompts, batch.rollout.tokens, update.objective(settings_config)
    )
  )
  loss, grads, metrics = gradients_of(adapted, batch, settings_config)
  settings_config.train.micro_batch = 1
  parts_loss, parts_grads, parts_metrics = gradients_of(adapted, batch, settings_config)
  assert abs(float(loss - parts_loss)) < 1e-6 * max(1, abs(float(loss)))
  grads, parts_grads = (  # a fresh adapter's A has no gradient, since B is 0
    {k: v for k, v in _leaves(g).items() if "lora_b" in k} for g in (grads, parts_grads)
  )
  assert relative(parts_grads, grads) < 1e-5
  for name, metric in metrics.items():
    if isinstance(metric, Sample):
      np.testing.assert_array_equal(metric.values, parts_metrics[name].values)
      continue
    assert np.isclose(metric.total, parts_metrics[name].total, rtol=1e-5, atol=1e-6), name
    assert np.isclose(metric.weight, parts_metrics[name].weight, rtol=1e-6), name


def _leaves(tree):
  flat, _ = jax.tree_util.tree_flatten_with_path(tree)
  return {sharding.path_name(path): leaf for path, leaf in flat}


def test_log_probs_in_micro_batches_keep_their_order(policy, batch, settings_config):
  whole = update.log_probs(
    policy, batch.prompts, batch.rollout.tokens, update.objective(settings_config)
  )
  settings_config.train.micro_batch = 2
  parts = update.log_probs(
    policy, batch.prompts, batch.rollout.tokens, update.objective(settings_config)
  )
  # Values reach -13, and a product's order of sums depends on its shape and the processor.
  np.testing.assert_allclose(parts, whole, rtol=5e-6, atol=1e-5)  # under 1e-4 everywhere


def test_one_device_equals_eight(policy, batch, settings_config):
  """Loss and each gradient leaf; data = fsdp = tensor = 2."""
  settings_config.loss.beta = 0.0
  loss, grads, _ = gradients_of(policy, batch, settings_config)
  mesh = sharding.make_mesh(2, 2, 2)
  spread = sharding.spread_questions(jax.tree.map(np.asarray, batch), mesh)
  meshed_loss, meshed, _ = gradients_of(sharding.shard(policy, mesh), spread, settings_config)
  assert abs(float(meshed_loss - loss)) < 1e-5 * abs(float(loss))
  assert relative(jax.tree.map(np.asarray, meshed), jax.tree.map(np.asarray, grads)) < 1e-5


def test_optimizer_state_lies_where_its_weights_do(policy, settings_config):
  """flax#5112: the moments of stacked layers keep the weights' spec, layer axis included."""
  mesh = sharding.make_mesh(2, 2, 2)
  optimizer, _ = update.make_optimizer(settings_config.optimizer, 10)
  train = update.init(sharding.shard(policy, mesh), optimizer, mesh)
  weights = _leaves(train.model.trainable())
  moments = _leaves(train.opt_state)
  found = 0
  for name, leaf in moments.items():
    for kind in ("mu/", "nu/"):
      if kind in name:
        weight = weights[name.split(kind)[1]]
        assert leaf.sharding.is_equivalent_to(weight.sharding, leaf.ndim), name
        assert leaf.addressable_shards[0].data.shape == weight.addressable_shards[0].data.shape
        found += 1
  assert found == 2 * len(weights)
  q = weights["blocks/layer_0/attn/q_proj/kernel"]  # [L 3, D 24, N*H 32]
  assert q.addressable_shards[0].data.shape == (3, 12, 16)


def test_twenty_updates_raise_credited_and_lower_uncredited(policy, batch, settings_config):
  """A recorded batch, beta = 0: the mean log-probability of credited sentences rises."""
  settings_config.loss.beta = 0.0
  settings_config.optimizer.update({"learning_rate": 3e-3, "warmup_steps": 0})
  settings = update.objective(settings_config)
  credit, _ = update.credits(batch.sentences, batch.scores, settings)
  ids = np.asarray(batch.sentences.ids)
  per_token = np.take_along_axis(np.asarray(credit), np.maximum(ids, 0), axis=2)
  mixed = [0 < per_token[b][ids[b] >= 0].mean() < 1 for b in range(4)]
  assert sum(mixed) >= 2, "groups with both kinds of sentence were wanted"
  chosen = (ids >= 0) & np.array(mixed)[:, None, None]
  good, bad = chosen & (per_token == 1), chosen & (per_token == 0)

  optimizer, schedule = update.make_optimizer(settings_config.optimizer, 20)
  step = update.make_update(
    optimizer, schedule, functools.partial(update.gradients, settings=settings)
  )
  before = np.asarray(update.log_probs(policy, batch.prompts, batch.rollout.tokens, settings))
  train = update.init(jax.tree.map(jnp.copy, policy), optimizer, sharding.make_mesh())
  for _ in range(20):
    train, metrics = step(train, batch)
  after = np.asarray(update.log_probs(train.model, batch.prompts, batch.rollout.tokens, settings))
  assert after[good].mean() > before[good].mean() + 0.05
  assert after[bad].mean() < before[bad].mean() - 0.05
  assert int(train.step) == 20
  assert float(metrics["optimizer/skipped"].total) == 0


def test_a_non_finite_update_changes_nothing_and_is_counted(policy, batch, settings_config):
  settings_config.loss.beta = 0.04
  settings_config.optimizer.update({"learning_rate": 1e-3, "warmup_steps": 0})
  optimizer, schedule = update.make_optimizer(settings_config.optimizer, 20)
  step = update.make_update(
    optimizer,
    schedule,
    functools.partial(update.gradients, settings=update.objective(settings_config)),
  )
  broken = batch._replace(ref_logps=jnp.full(batch.rollout.tokens.shape, jnp.nan))
  train, metrics = step(
    update.init(jax.tree.map(jnp.copy, policy), optimizer, sharding.make_mesh()), broken
  )
  assert float(metrics["optimizer/skipped"].total) == 1
  assert int(train.bad_steps) == 1
  for a, b in zip(jax.tree.leaves(train.model.params), jax.tree.leaves(policy.params), strict=True):
    np.testing.assert_array_equal(a, b)
  sound = batch._replace(
    ref_logps=update.log_probs(
      policy, batch.prompts, batch.rollout.tokens, update.objective(settings_config)
    )
  )
  train, metrics = step(train, sound)
  assert float(metrics["optimizer/skipped"].total) == 0
  assert int(train.bad_steps) == 1
  changed = [
    bool((np.asarray(a) != np.asarray(b)).any())
    for a, b in zip(
      jax.tree.leaves(train.model.params), jax.tree.leaves(policy.params), strict=True
    )
  ]
  assert all(changed)


def test_the_papers_learning_rate_moves_the_parameters(policy, batch, settings_config):
  """lr 1e-6 over 36 warm-up steps: float32 weights move where bfloat16 would stand still."""
  assert settings_config.optimizer.learning_rate == 1e-6
  settings_config.loss.beta = 0.0
  optimizer, schedule = update.make_optimizer(settings_config.optimizer, 100)
  step = update.make_update(
    optimizer,
    schedule,
    functools.partial(update.gradients, settings=update.objective(settings_config)),
  )
  train = update.init(jax.tree.map(jnp.copy, policy), optimizer, sharding.make_mesh())
  for _ in range(3):
    train, _ = step(train, batch)
  name = "blocks/layer_0/mlp/down_proj/kernel"
  old, new = np.asarray(_leaves(policy.params)[name]), np.asarray(_leaves(train.model.params)[name])
  assert (old != new).mean() > 0.5
  bfloat16 = (x.astype(jnp.bfloat16) for x in (old, new))
  assert np.equal(*map(np.asarray, bfloat16)).mean() > 0.9


def test_schedule_warms_up_to_the_peak_and_decays():
  config = config_lib.default_config().optimizer
  config.update({"learning_rate": 1.0, "warmup_steps": 4, "schedule": "linear"})
  _, schedule = update.make_optimizer(config, 8)
  np.testing.assert_allclose(
    [schedule(i) for i in range(9)], [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0], rtol=1e-6
  )


def sentence_case():
  """One question, two answers, three sentences each; the last place of answer 1 is padding."""
  mask = np.array([[[1, 1, 1], [1, 1, 0]]], bool)
  sentences = Sentences(
    ids=np.zeros((1, 2, 3), np.int32),
    mask=mask,
    pseudo=np.zeros_like(mask),
    complete=np.array([[[1, 1, 0], [1, 1, 1]]], bool),
    copied=np.array([[[0, 1, 0], [0, 1, 0]]], bool),
    copy_share=np.array([[0.4, 0.5]], np.float32),
  )
  scores = Scores(
    supported=np.array([[[0.9, 0.8, 0.9], [0.7, 0.2, np.nan]]], np.float32),
    vacuous=np.array([[[0.1, 0.1, 0.1], [0.6, 0.1, np.nan]]], np.float32),
  )
  return sentences, scores


@pytest.mark.parametrize(
  ("off", "credit"),
  [  # by hand: sentence 1 of both is copied, sentence 2 of answer 0 is cut off, 0 of answer 1 vacuous
    ((), [[1, 0, 0], [0, 0, 0]]),
    (("authored",), [[1, 1, 0], [0, 0, 0]]),
    (("vacuous",), [[1, 0, 0], [1, 0, 0]]),
    (("supported",), [[1, 0, 0], [0, 0, 0]]),
    (("authored", "vacuous"), [[1, 1, 0], [1, 0, 0]]),
    (("authored", "supported"), [[1, 1, 0], [0, 1, 0]]),
    (("authored", "vacuous", "supported"), [[1, 1, 0], [1, 1, 0]]),
  ],
)
def test_each_test_of_a_sentence_can_be_switched_off(settings_config, off, credit):
  for name in off:
    settings_config.credit[name] = False
  found, supported = update.credits(*sentence_case(), update.objective(settings_config))
  np.testing.assert_array_equal(found, [credit])
  np.testing.assert_array_equal(supported, [[[1, 1, 0], [1, 0, 0]]])


def test_answer_rewards_spread_over_every_token(settings_config):
  """R - 0.5 Copy by hand: 2/3 - 0.2 and 1/2 - 0.25, so +-1 under the population std."""
  config_lib.apply_method(settings_config, "copy_penalty")
  settings_config.credit.copy_weight = 0.5
  settings_config.advantage.eps = 0.0
  settings = update.objective(settings_config)
  sentences, scores = sentence_case()
  credit, _ = update.credits(sentences, scores, settings)
  _, tokens = update.unit_advantages(sentences, credit, settings)
  np.testing.assert_allclose(tokens, [[[1, 1, 1], [-1, -1, -1]]], atol=1e-5)
  config_lib.apply_method(settings_config, "dr_grpo")
  settings_config.credit.copy_weight = 0.5
  settings = update.objective(settings_config)
  _, tokens = update.unit_advantages(sentences, credit, settings)
  np.testing.assert_allclose(tokens[0, :, 0], [0.1083333, -0.1083333], atol=1e-6)


def test_importance_weights_are_capped(policy, batch, settings_config):
  """The weighted policy gradient is linear in min(exp(logp - sampler's), cap)."""
  settings_config.loss.beta = 0.0
  settings = update.objective(settings_config)
  logps = update.log_probs(policy, batch.prompts, batch.rollout.tokens, settings)
  same = batch._replace(rollout=batch.rollout._replace(logps=logps))
  double = batch._replace(rollout=batch.rollout._replace(logps=logps - np.log(2.0)))
  far = batch._replace(rollout=batch.rollout._replace(logps=logps - 9.0))
  _, plain, _ = gradients_of(policy, same, settings_config)
  settings_config.rollout.is_cap = 3.0
  for other, factor in ((same, 1.0), (double, 2.0), (far, 3.0)):
    _, weighted, _ = gradients_of(policy, other, settings_config)
    assert relative(weighted, jax.tree.map(lambda g, f=factor: g * f, plain)) < 1e-4


def test_a_failed_score_is_no_verdict(settings_config):
  """NaN leaves the mean that the others are compared with, unless a copy decides already."""
  sentences, scores = sentence_case()
  scores.supported[0, 1, 0] = np.nan  # authored: left out
  scores.supported[0, 0, 1] = np.nan  # copied: earns nothing in any case
  settings = update.objective(settings_config)
  kept = update.scored(sentences, scores, settings)
  np.testing.assert_array_equal(kept.mask, [[[1, 1, 1], [0, 1, 0]]])
  credit, _ = update.credits(kept, scores, settings)
  np.testing.assert_array_equal(credit, [[[1, 0, 0], [0, 0, 0]]])
  values, _ = update.unit_advantages(kept, credit, settings)
  # By hand: credits 1, 0, 0, 0: mean 1/4, std sqrt(3)/4.
  high, low = 3**0.5, -(3**-0.5)
  np.testing.assert_allclose(values, [[[high, low, low], [0, low, 0]]], atol=1e-4)

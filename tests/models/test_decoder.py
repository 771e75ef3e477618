"""The decoder against transformers' torch models, and against itself in pieces."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from asc_jax.models import decoder
from asc_jax.models.layers import AttentionConfig, Rope

torch.set_num_threads(1)  # tiny products; more threads only wait for each other
VOCAB, WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 97, 48, 80, 3, 6, 2, 16
B, G, P, T = 2, 3, 9, 5
LENGTHS = np.array([6, 9], np.int32)
SCALING = {
  "rope_type": "llama3",
  "rope_theta": 500.0,
  "factor": 4.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
  "original_max_position_embeddings": 16,
}
FAMILIES = {
  "llama": (transformers.LlamaConfig, {"rope_parameters": SCALING}),
  "qwen2": (transformers.Qwen2Config, {"tie_word_embeddings": True}),
  "qwen3": (transformers.Qwen3Config, {}),
}


def torch_model(family):
  """A tiny model with every parameter redrawn, so that none is at a neutral value."""
  make, options = FAMILIES[family]
  config = make(
    vocab_size=VOCAB,
    hidden_size=WIDTH,
    intermediate_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=HEAD_DIM,
    attn_implementation="eager",
    **{"tie_word_embeddings": False} | options,
  )
  if not hasattr(config, "rope_parameters"):
    raise AssertionError("transformers 5 keeps the rotary settings in rope_parameters")
  model = transformers.AutoModelForCausalLM.from_config(config).eval()
  generator = torch.Generator().manual_seed(0)
  with torch.no_grad():
    for parameter in model.parameters():
      parameter.copy_(0.25 * torch.randn(parameter.shape, generator=generator))
      if parameter.ndim == 1:
        parameter.add_(1.0)
  return model


def convert(family, model):
  """The same model as a DecoderState, every tensor placed by hand."""
  weights = {k: v.detach().numpy() for k, v in model.state_dict().items()}

  def stack(name, transpose=False):
    rows = [weights.pop(f"model.layers.{i}.{name}") for i in range(LAYERS)]
    return jnp.asarray(np.stack([r.T if transpose else r for r in rows]))

  def linear(name, bias=False):
    node = {"kernel": stack(f"{name}.weight", transpose=True)}
    return node | {"bias": stack(f"{name}.bias")} if bias else node

  attn = {f"{n}_proj": linear(f"self_attn.{n}_proj", family == "qwen2") for n in "qkv"}
  attn["o_proj"] = linear("self_attn.o_proj")
  if family == "qwen3":
    attn |= {n: {"scale": stack(f"self_attn.{n}.weight")} for n in ("q_norm", "k_norm")}
  layer = {
    "attn_norm": {"scale": stack("input_layernorm.weight")},
    "attn": attn,
    "mlp_norm": {"scale": stack("post_attention_layernorm.weight")},
    "mlp": {f"{n}_proj": linear(f"mlp.{n}_proj") for n in ("gate", "up", "down")},
  }
  params = {
    "embed": {"embedding": jnp.asarray(weights.pop("model.embed_tokens.weight"))},
    "blocks": {"layer_0": layer},
    "final_norm": {"scale": jnp.asarray(weights.pop("model.norm.weight"))},
  }
  head = weights.pop("lm_head.weight")
  if not model.config.tie_word_embeddings:
    params["head"] = {"kernel": jnp.asarray(head.T)}
  assert not weights, f"not placed: {list(weights)}"
  rope = Rope(theta=model.config.rope_parameters["rope_theta"])
  if family == "llama":
    rope = Rope(theta=500.0, llama3=(4.0, 1.0, 4.0, 16))
  kind = AttentionConfig(
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    rope,
    qkv_bias=family == "qwen2",
    qk_norm="head" if family == "qwen3" else "none",
  )
  config = decoder.DecoderConfig(
    family,
    VOCAB,
    WIDTH,
    HIDDEN,
    LAYERS,
    (kind,),
    norm_eps=model.config.rms_norm_eps,
    tied=model.config.tie_word_embeddings,
  )
  state = decoder.DecoderState(params, None, config)
  fresh = jax.eval_shape(lambda: decoder.init(config, jax.random.key(0)))
  assert jax.tree.map(jnp.shape, fresh.params) == jax.tree.map(jnp.shape, params)
  return state


@pytest.fixture(scope="module", params=list(FAMILIES))
def twins(request):
  model = torch_model(request.param)
  return model, convert(request.param, model)


@pytest.fixture(scope="module")
def state():
  return convert("qwen3", torch_model("qwen3"))


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, VOCAB, (B, P)).astype(np.int32)
  answers = rng.integers(0, VOCAB, (B, G, T)).astype(np.int32)
  return tokens, answers


def torch_logits(model, tokens, answers):
  """[B, G, T, V]: a plain forward pass over each prompt and answer put together."""
  out = np.zeros((B, G, T, VOCAB), np.float32)
  for b, n in enumerate(LENGTHS):
    for g in range(G):
      ids = np.concatenate([tokens[b, :n], answers[b, g]])
      with torch.no_grad():
        out[b, g] = model(torch.tensor(ids)[None]).logits[0, n - 1 : -1].numpy()
  return out


log_probs = jax.jit(decoder.answer_log_probs, static_argnames="chunk")


@jax.jit
def run(state, tokens, answers, lengths=LENGTHS):
  """Hidden states by prefill and extend."""
  prefix = decoder.prefill(state, tokens, lengths)
  inputs = decoder.answer_inputs(tokens, lengths, answers)
  return decoder.extend(state, prefix, inputs, 0)[0]


def test_prefill_and_extend_give_torchs_logits(twins, batch):
  model, state = twins
  wanted = torch_logits(model, *batch)
  assert wanted.std() > 1
  got = decoder.logits(state, run(state, *batch))
  np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def test_decoding_step_by_step_is_teacher_forcing(twins, batch):
  model, state = twins
  tokens, answers = batch
  prefix = jax.jit(decoder.prefill)(state, tokens, LENGTHS)
  inputs = decoder.answer_inputs(tokens, LENGTHS, answers)
  step = jax.jit(decoder.extend)
  cache = decoder.init_cache(state, prefix, G, T + 2)
  for t in range(T):
    hidden, cache = step(state, prefix, inputs[:, :, t : t + 1], t, cache)
    wanted = torch_logits(model, *batch)[:, :, t]
    np.testing.assert_allclose(decoder.logits(state, hidden[:, :, 0]), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 12, 4096])
def test_answer_log_probs_are_torchs_log_softmax(batch, chunk):
  """Tied logits, in chunks that do and do not divide the answer."""
  model = torch_model("qwen2")
  tokens, answers = batch
  logits = torch.tensor(torch_logits(model, *batch)) / 0.7
  wanted = torch.log_softmax(logits, -1).gather(-1, torch.tensor(answers).long()[..., None])
  got = log_probs(convert("qwen2", model), tokens, LENGTHS, answers, temperature=0.7, chunk=chunk)
  np.testing.assert_allclose(got, wanted[..., 0].numpy(), rtol=0, atol=1e-4)


def test_gradients_are_torchs(twins, batch):
  model, state = twins
  tokens, answers = batch
  weights = np.random.default_rng(1).normal(size=answers.shape).astype(np.float32)

  def loss(params):
    logps = decoder.answer_log_probs(
      state.with_trainable(params), tokens, LENGTHS, answers, temperature=1.0, chunk=12
    )
    return jnp.sum(logps * weights)

  got = jax.jit(jax.grad(loss))(state.trainable())
  model.zero_grad()
  for b, n in enumerate(LENGTHS):
    for g in range(G):
      ids = torch.tensor(np.concatenate([tokens[b, :n], answers[b, g]])).long()
      logps = torch.log_softmax(model(ids[None]).logits[0, n - 1 : -1], -1)
      picked = logps[torch.arange(T), ids[n:]]
      (picked * torch.tensor(weights[b, g])).sum().backward()
  attn, mlp = got["blocks"]["layer_0"]["attn"], got["blocks"]["layer_0"]["mlp"]
  layers = model.model.layers
  pairs = [
    (got["embed"]["embedding"], model.model.embed_tokens.weight.grad),
    (attn["k_proj"]["kernel"][0].T, layers[0].self_attn.k_proj.weight.grad),
    (attn["q_proj"]["kernel"][-1].T, layers[-1].self_attn.q_proj.weight.grad),
    (mlp["down_proj"]["kernel"][-1].T, layers[-1].mlp.down_proj.weight.grad),
  ]
  for ours, theirs in pairs:
    theirs = theirs.numpy()
    assert np.linalg.norm(ours - theirs) <= 1e-4 * np.linalg.norm(theirs)


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

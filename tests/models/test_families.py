"""Every family against its torch implementation, all tensors redrawn."""

import copy
import dataclasses
import functools

import hf_reference as hf
import jax
import jax.numpy as jnp
import numpy as np
import peft
import pytest
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from asc_jax import config as config_lib
from asc_jax.models import checkpoints, decoder, families
from asc_jax.models.lora import LoraConfig
from asc_jax.rl import checkpointing
from asc_jax.tools import export

LENGTHS = np.array([5, 70, 2])  # B = 3 prompts, beyond window and chunk
ANSWERS = np.array([[4, 7], [7, 1], [3, 6]])  # G = 2 answers each
TOLERANCE = 1e-4


@functools.cache
def batch():
  """tokens [B, P], answers [B, G, T], padding of a real token's value."""
  rng = np.random.default_rng(3)
  tokens = rng.integers(3, hf.VOCAB, (3, LENGTHS.max() + 2))
  answers = rng.integers(3, hf.VOCAB, (3, 2, ANSWERS.max()))
  return tokens, answers


@pytest.fixture(scope="module", params=hf.FAMILIES)
def pair(request, tmp_path_factory):
  """(torch model, our decoder, the checkpoint's folder)."""
  model = hf.build(request.param)
  folder = hf.save(model, tmp_path_factory.mktemp(request.param))
  state, _ = checkpoints.load(folder)
  return model, state, folder


def as_transformers_has_it(state):
  """The state with transformers' names: InternLM2 is a Llama there."""
  if state.config.family != "internlm2":
    return state
  return dataclasses.replace(state, config=dataclasses.replace(state.config, family="llama"))


def rows():
  """(b, g, the question's tokens followed by the answer's), each of its real length."""
  tokens, answers = batch()
  for b, length in enumerate(LENGTHS):
    for g in range(2):
      yield b, g, np.concatenate([tokens[b, :length], answers[b, g, : ANSWERS[b, g]]])


def reference(model):
  """[(b, g, float32[T, V])] at the positions that predict the answer's tokens."""
  with torch.no_grad():
    scores = hf.batch_logits(model, [row for _, _, row in rows()]).numpy()
  return [(b, g, scores[i, LENGTHS[b] - 1 : len(row) - 1]) for i, (b, g, row) in enumerate(rows())]


@jax.jit
def answer_logits(state, tokens, lengths, answers):
  prefix = decoder.prefill(state, tokens, lengths)
  inputs = decoder.answer_inputs(tokens, lengths, answers)
  hidden, _ = decoder.extend(state, prefix, inputs, 0)
  return decoder.logits(state, hidden)


def ours(state):
  tokens, answers = batch()
  return np.asarray(
    answer_logits(state, jnp.asarray(tokens), jnp.asarray(LENGTHS), jnp.asarray(answers))
  )


def worst(reference, scores):
  return max(np.abs(r - scores[b, g, : len(r)]).max() for b, g, r in reference)


def test_prefill_and_extend_give_the_logits_of_a_full_forward_pass(pair):
  model, state, _ = pair
  expected = reference(model)
  assert min(r.std() for _, _, r in expected) >= 1
  assert worst(expected, ours(state)) <= TOLERANCE


def test_logits_of_every_prompt_position(pair):
  model, state, _ = pair
  tokens, _ = batch()
  scores = answer_logits(
    state, jnp.asarray(tokens[:, :1]), jnp.ones(3, jnp.int32), jnp.asarray(tokens[:, None, 1:])
  )
  for b, length in enumerate(LENGTHS):
    expected = hf.logits(model, tokens[b, :length])[:-1]  # alone, without padding
    np.testing.assert_allclose(scores[b, 0, : length - 1], expected, atol=TOLERANCE, rtol=0)


def test_step_by_step_decoding_gives_the_same_logits(pair):
  model, state, _ = pair
  tokens, answers = map(jnp.asarray, batch())
  inputs = decoder.answer_inputs(tokens, jnp.asarray(LENGTHS), answers)
  prefix = decoder.prefill(state, tokens, jnp.asarray(LENGTHS))
  cache = decoder.init_cache(state, prefix, 2, inputs.shape[-1])
  step = jax.jit(decoder.extend)
  scores = []
  for t in range(inputs.shape[-1]):
    hidden, cache = step(state, prefix, inputs[:, :, t : t + 1], t, cache)
    scores.append(decoder.logits(state, hidden))
  assert worst(reference(model), np.concatenate(scores, axis=2)) <= TOLERANCE


def test_changing_any_one_tensor_is_noticed(pair):
  model, state, _ = pair
  scores = ours(state)
  tensors = dict(model.named_parameters()) | dict(model.named_buffers())
  tensors = {n: t for n, t in tensors.items() if n in model.state_dict()}
  assert len(tensors) == len({t.data_ptr() for t in tensors.values()})
  unnoticed = []
  for name, tensor in tensors.items():
    kept = tensor.detach().clone()
    with torch.no_grad():
      # A single number may scale what a norm scales back, but not its sign.
      tensor.mul_(1.2 if tensor.numel() > 1 else -1.0).add_(
        0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1))
      )
    if worst(reference(model), scores) <= 10 * TOLERANCE:
      unnoticed.append(name)
    with torch.no_grad():
      tensor.copy_(kept)
  assert unnoticed == []
  assert worst(reference(model), scores) <= TOLERANCE  # put back


def torch_gradients(model, names):
  """Of the mean log-probability of all answer tokens."""
  model.zero_grad()
  total, count = 0.0, 0
  all_logits = hf.batch_logits(model, [row for _, _, row in rows()])
  for i, (b, _, row) in enumerate(rows()):
    scores = torch.log_softmax(all_logits[i, LENGTHS[b] - 1 : len(row) - 1], -1)
    total = total + scores.gather(1, torch.tensor(row)[LENGTHS[b] :, None]).sum()
    count += len(row) - LENGTHS[b]
  (total / count).backward()
  gradients = dict(model.named_parameters())
  return {name: gradients[name].grad.numpy() for name in names}


def test_gradients_of_embedding_first_and_last_block(pair):
  model, state, _ = pair
  tokens, answers = map(jnp.asarray, batch())
  mask = jnp.asarray(np.arange(answers.shape[-1]) < ANSWERS[..., None])

  def loss(params):
    logps = decoder.answer_log_probs(
      state.with_trainable(params), tokens, jnp.asarray(LENGTHS), answers, temperature=1.0, chunk=8
    )
    return (logps * mask).sum() / mask.sum()

  gradients = jax.jit(jax.grad(loss))(state.params)
  config = as_transformers_has_it(state).config
  last = config.num_layers - 1
  wanted = {}
  for leaf, x in zip(families.leaves(config, gradients), jax.tree.leaves(gradients), strict=True):
    if leaf.path == "embed/embedding":
      wanted[leaf.names[0]] = x
    elif leaf.path.endswith("/kernel") and leaf.stacked:
      for repeat, name in enumerate(leaf.names):
        if f".{last}." in name or ".0." in name:
          wanted[name] = x[repeat].T
  assert len(wanted) >= 1 + 2 * 6
  for name, expected in torch_gradients(model, wanted).items():
    error = np.linalg.norm(wanted[name] - expected) / np.linalg.norm(expected)
    assert error <= TOLERANCE, name


def test_the_export_tool_writes_what_transformers_reads_bit_equal(pair, tmp_path):
  model, state, folder = pair
  run, out = tmp_path / "run", tmp_path / "out"
  saved = checkpointing.Checkpoints(run)
  saved.save(1, {"trainable": state.trainable()}, {"config": {}})
  saved.wait()
  config = config_lib.default_config()
  config.model.path = str(folder)
  export.main(config, str(run), str(out), adapter=False)
  if state.config.family == "internlm2":  # which transformers reads with foreign code only
    wanted, theirs = (safetensors.torch.load_file(f / "model.safetensors") for f in (folder, out))
  else:
    wanted, theirs = model.state_dict(), AutoModelForCausalLM.from_pretrained(out).state_dict()
  assert theirs.keys() == wanted.keys()
  for name, tensor in wanted.items():
    assert torch.equal(theirs[name], tensor), name


# peft asks transformers for an old name.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_peft_reads_an_adapter_of_every_projection(pair, tmp_path):
  model, _, folder = pair
  targets = config_lib.PROJECTIONS + config_lib.DELTA_PROJECTIONS
  state, tokenizer = checkpoints.load(folder, lora=LoraConfig(rank=2, alpha=3.0, targets=targets))
  keys = iter(jax.random.split(jax.random.key(1), 200))
  state = state.with_trainable(
    jax.tree.map(lambda x: 0.2 * jax.random.normal(next(keys), x.shape), state.adapter)
  )
  checkpoints.export_adapter(
    as_transformers_has_it(state), tmp_path / "adapter", base=str(folder), tokenizer=tokenizer
  )
  theirs = peft.PeftModel.from_pretrained(copy.deepcopy(model), tmp_path / "adapter").eval()
  read = {n: p for n, p in theirs.named_parameters() if ".lora_" in n}
  assert sum(p.numel() for p in read.values()) == sum(
    x.size for x in jax.tree.leaves(state.adapter)
  )
  adapted = {n.split(".lora_")[0].rpartition(".")[2] for n in read}
  # Of Gemma 4 some layers have no v_proj.
  delta = state.config.family.startswith("qwen3_5")
  assert adapted == set(targets if delta else config_lib.PROJECTIONS)
  scores = ours(state)
  assert worst(reference(theirs), scores) <= TOLERANCE
  with theirs.disable_adapter():
    assert worst(reference(theirs), scores) > 0.1
  assert AutoTokenizer.from_pretrained(tmp_path / "adapter")("#%").input_ids == [5, 7]

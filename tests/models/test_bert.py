"""BERT against transformers' torch implementation, on random and on real weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from flax import nnx
from safetensors.numpy import load_file

from asc_jax.models import bert
from asc_jax.types import UserError

TINY = dict(
  vocab_size=50,
  hidden_size=12,
  num_hidden_layers=3,
  num_attention_heads=4,
  intermediate_size=20,
  max_position_embeddings=32,
  layer_norm_eps=1e-12,
)


@pytest.fixture(scope="module")
def tiny():
  torch.manual_seed(0)
  reference = transformers.BertModel(transformers.BertConfig(**TINY)).eval()
  with torch.no_grad():
    for p in reference.parameters():  # biases and norms too, which begin as zeros and ones
      p.add_(0.3 * torch.randn_like(p))
  weights = {k: v.numpy() for k, v in reference.state_dict().items()}
  return reference, bert.BertConfig.from_dict(TINY), weights


def reference_hidden(model, tokens, lengths):
  mask = torch.arange(tokens.shape[1])[None] < torch.tensor(lengths)[:, None]
  with torch.no_grad():
    return model(torch.tensor(tokens), attention_mask=mask.long()).last_hidden_state.numpy(), mask


def test_equals_torch_with_rows_of_unequal_length(tiny):
  reference, config, weights = tiny
  tokens = np.random.default_rng(1).integers(0, 50, (3, 11))
  lengths = np.array([11, 2, 7])
  wanted, mask = reference_hidden(reference, tokens, lengths)
  got = bert.from_weights(config, weights)(jnp.asarray(tokens), jnp.asarray(lengths))
  np.testing.assert_allclose(got[mask.numpy()], wanted[mask], atol=1e-5)


def test_equals_torch_on_the_real_weights():
  from asc_jax.checkers import encoder

  try:
    folder = encoder.find_weights(None)
  except UserError as e:
    pytest.skip(str(e))
  reference = transformers.BertModel.from_pretrained(folder).eval()
  config = bert.BertConfig.from_dict(reference.config.to_dict())
  tokens = np.random.default_rng(2).integers(1000, 30000, (2, 40))
  lengths = np.array([40, 23])
  wanted, mask = reference_hidden(reference, tokens, lengths)
  model = bert.from_weights(config, load_file(folder / "model.safetensors"))
  got = model(jnp.asarray(tokens), jnp.asarray(lengths))
  np.testing.assert_allclose(got[mask.numpy()], wanted[mask], atol=1e-4)


def test_padding_is_never_read(tiny):
  _, config, weights = tiny
  model = bert.from_weights(config, weights)
  graph, state = nnx.split(model)
  run = jax.jit(lambda s, t, n: nnx.merge(graph, s)(t, n))
  tokens = np.random.default_rng(3).integers(0, 50, (2, 9))
  lengths = np.array([4, 6])
  other = np.where(np.arange(9)[None] < lengths[:, None], tokens, 49 - tokens)
  assert (tokens != other).any()
  a, b = run(state, tokens, lengths), run(state, other, lengths)
  for row, n in enumerate(lengths):
    np.testing.assert_array_equal(a[row, :n], b[row, :n])


def test_a_missing_or_misshapen_tensor_is_named(tiny):
  _, config, weights = tiny
  name = "encoder.layer.1.output.dense.weight"
  with pytest.raises(UserError, match=name):
    bert.from_weights(config, {k: v for k, v in weights.items() if k != name})
  with pytest.raises(UserError, match=r"words\.embedding is \(49, 12\)"):
    bert.from_weights(config, {**weights, "embeddings.word_embeddings.weight": np.zeros((49, 12))})

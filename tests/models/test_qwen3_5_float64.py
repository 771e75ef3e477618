"""How near Qwen3.5 comes to exact arithmetic: as near as torch's own float32."""

import hf_reference as hf
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers.models.qwen3_5 import modeling_qwen3_5

from asc_jax.models import checkpoints, decoder

LENGTH = 90  # beyond one chunk of DeltaNet


class Double:
  """The module torch with float64 under the name float32, for code that casts by name."""

  float32 = torch.float64

  def __getattr__(self, name):
    return getattr(torch, name)


@jax.jit
def logits(state, tokens):
  prefix = decoder.prefill(state, tokens[:, :1], jnp.ones(len(tokens), jnp.int32))
  hidden, _ = decoder.extend(state, prefix, tokens[:, None], 0)
  return decoder.logits(state, hidden)[:, 0]


@pytest.mark.parametrize("gain", [0.7, 1.3])
def test_float32_is_as_near_to_float64_as_torchs(gain, tmp_path, monkeypatch):
  monkeypatch.setitem(hf.GAINS, "qwen3_5", gain)
  model = hf.build("qwen3_5")
  state, _ = checkpoints.load(hf.save(model, tmp_path))
  tokens = np.random.default_rng(0).integers(3, hf.VOCAB, (4, LENGTH))
  theirs = hf.batch_logits(model, tokens).detach().numpy()
  ours = np.asarray(logits(state, jnp.asarray(tokens)))
  # Layers cast to float32 inside whatever their weights are, by this name and this method.
  monkeypatch.setattr(modeling_qwen3_5, "torch", Double())
  monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
  exact = hf.batch_logits(model.double(), tokens)
  assert exact.dtype == torch.float64
  exact = exact.detach().numpy()

  def error(scores):
    return np.sqrt(np.mean((scores - exact) ** 2))

  assert 0 < error(theirs) < 1e-2 * exact.std()
  assert error(ours) <= 2 * error(theirs)

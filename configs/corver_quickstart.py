"""CorVer on SmolLM2-135M-Instruct: the second system on a laptop.

Reproduces no table of the paper. It shows, on 70 packaged questions and a packaged corpus
of 84 documents, that completions are split into sentences, that the corpus is asked about
each, and that token-level advantages move the policy: 8 steps of 2 questions and 8
completions, LoRA on all seven projections, facts found by rules, an evaluation before and
after on questions not trained on. The corpus is small, so the levels are lower than the
paper's: a fact found three times is well known here.

Expected: a share of tokens with non-zero advantages above 10 % (else it exits with 1).
Hardware: 2 CPU cores and 6 GB; under 10 minutes.

  python -m asc_jax.main --config=configs/corver_quickstart.py --workdir=runs/corver

The same on real questions and a real corpus, with files as they are published:

  python -m asc_jax.main --config=configs/corver_quickstart.py --workdir=runs/nq \
    --config.data.path=NQ-open.train.jsonl --config.corver.index=INDEX \
    --config.corver.levels=four_level
"""

import importlib.resources

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "corver")
  packaged = importlib.resources.files("asc_jax.corver") / "quickstart"

  config.model.path = "smollm2"
  config.model.lora.rank = 16
  config.model.lora.alpha = 32.0

  config.data.corpus = "nq_open"
  config.data.path = str(packaged / "questions.jsonl")
  config.data.batch_size = 2
  config.data.prompt_buckets = (128,)

  config.rollout.group_size = 8
  config.rollout.max_tokens = 64
  config.rollout.temperature = 0.7

  config.corver.index = str(packaged / "corpus.jsonl")
  config.corver.levels = "0:-0.3,1:0,3:0.1"

  # The paper's rates are for 100 steps; an adapter that starts at zero needs more in eight.
  config.loss.beta = 1e-3
  config.optimizer.learning_rate = 2e-4
  config.optimizer.warmup_steps = 2

  config.train.steps = 8
  config.train.checkpoint_every = 4
  config.corver.min_nonzero_tokens = 0.1

  config.eval.questions = 8
  return config

"""Authored-Sentence Credit on SmolLM2-135M-Instruct: the whole machine on a laptop.

Reproduces no table of the paper. It shows, on 40 packaged questions with 2 to 4 passages
each, that every part runs and that sentence-level credit moves the policy: 8 steps of 2
questions and 8 answers, LoRA on all seven projections, the packaged MiniLM checker, an
evaluation before and after on questions not trained on.

Expected: a share of groups with non-zero advantages above 25 % (else it exits with 1), a
digest of the adapter that differs from the one before, and a table base | trained.
Hardware: 2 CPU cores and 6 GB; under 10 minutes.

  python -m asc_jax.main --config=configs/quickstart.py --workdir=runs/quickstart

The same on real questions, with the files in the format in which they are published:

  python -m asc_jax.main --config=configs/quickstart.py --workdir=runs/ragtruth \
    --config.data.corpus=ragtruth --config.data.path=PATH
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "asc")

  config.model.path = "smollm2"
  config.model.lora.rank = 16
  config.model.lora.alpha = 32.0
  config.model.remat = "dots"  # recomputes less than "block", for about 0.7 GB

  config.data.corpus = "quickstart"
  config.data.batch_size = 2
  config.data.prompt_buckets = (384,)
  # Short enough that most answers end within max_tokens.
  config.data.instruction = (
    "Answer the question in one or two short sentences, in your own words, using only the passages."
  )

  config.rollout.group_size = 8
  config.rollout.max_tokens = 48
  config.rollout.temperature = 0.7

  config.checker.name = "minilm"

  # The paper's 1e-6 is for all parameters of a 9B model over hundreds of steps; an adapter
  # that starts at zero needs more to move in eight.
  config.optimizer.learning_rate = 2e-4
  config.optimizer.warmup_steps = 2

  config.train.steps = 8
  config.train.checkpoint_every = 4
  config.train.min_nonzero_groups = 0.25

  config.eval.questions = 8
  return config

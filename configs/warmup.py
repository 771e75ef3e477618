"""Supervised warm-up of SmolLM2-135M-Instruct on a corpus's own answers.

Reproduces no table of the paper. It makes a fairer base for reinforcement learning than
the untouched model, which copies much and reads little: two epochs or so over ClapNQ's
answers, LoRA on all seven projections. The adapter merges into a folder that
`config.model.path` takes:

  python -m asc_jax.main --config=configs/warmup.py --workdir=runs/warmup \
    --config.data.path=PATH
  python -m asc_jax.tools.export --config=configs/warmup.py --workdir=runs/warmup \
    --out=runs/warmup/merged

Expected: a table base | trained. Hardware: 2 CPU cores and 6 GB; about 10 minutes.
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "sft")

  config.model.path = "smollm2"
  config.model.lora.rank = 16
  config.model.lora.alpha = 32.0
  config.model.remat = "dots"

  config.data.corpus = "clapnq"
  config.data.batch_size = 4
  config.data.prompt_buckets = (256, 384)
  config.data.instruction = (
    "Answer the question in one or two short sentences, in your own words, using only the passages."
  )
  config.rollout.max_tokens = 96
  config.sft.answers = 2

  config.optimizer.learning_rate = 2e-4
  config.optimizer.warmup_steps = 4

  config.train.steps = 40
  config.train.checkpoint_every = 0

  config.eval.questions = 32
  config.eval.answers = 8
  config.eval.temperature = 0.7
  config.eval.max_tokens = 64
  return config

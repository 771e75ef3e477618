"""Does sentence credit teach? The settings of benchmarks/learning.py.

Reproduces no table of the paper: SmolLM2-135M after the warm-up of configs/warmup.py,
30 steps of 2 ClapNQ questions and 8 answers. Evaluated are 32 questions that neither
has seen, 8 answers each, drawn with the same keys before and after. One run of its own:

  python -m asc_jax.main --config=configs/learning.py --workdir=runs/learning \
    --config.data.path=PATH --config.model.path=runs/warmup/merged

Hardware: 2 CPU cores and 6 GB; about 10 minutes a run.
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "asc")

  config.model.path = "smollm2"  # or the merged folder of the warm-up
  config.model.lora.rank = 16
  config.model.lora.alpha = 32.0
  config.model.remat = "dots"

  config.data.corpus = "clapnq"
  config.data.batch_size = 2
  config.data.prompt_buckets = (256, 384)
  config.data.instruction = (
    "Answer the question in one or two short sentences, in your own words, using only the passages."
  )
  config.rollout.group_size = 8
  config.rollout.max_tokens = 64
  config.rollout.temperature = 0.7

  config.optimizer.learning_rate = 3e-4
  config.optimizer.warmup_steps = 2

  config.train.steps = 30
  config.train.checkpoint_every = 0

  config.eval.questions = 32
  config.eval.answers = 8
  config.eval.temperature = 0.7
  return config

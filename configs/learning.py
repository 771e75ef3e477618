"""Does sentence credit teach? The settings of benchmarks/learning.py.

Reproduces no table of the paper: SmolLM2-135M-Instruct as it comes, 30 steps of 2
ClapNQ questions and 8 answers. Evaluated are 32 questions that neither
has seen, 8 answers each, drawn with the same keys before and after. One run of its own:

  python -m asc_jax.main --config=configs/learning.py --workdir=runs/learning \
    --config.data.path=PATH

Hardware: 2 CPU cores and 6 GB; about 10 minutes a run.
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "asc")

  config.model.path = "smollm2"
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
  config.rollout.max_tokens = 48
  config.rollout.temperature = 0.5

  # At 2e-4 and temperature 0.7 credit rose more, but with random credits too: they sharpened
  # the model, and a sharper model earns more.
  config.optimizer.learning_rate = 8e-5
  config.optimizer.warmup_steps = 2

  config.train.steps = 30
  config.train.checkpoint_every = 0

  config.eval.questions = 64  # benchmarks/learning.py reports the second half
  config.eval.answers = 8
  config.eval.temperature = 0.5
  return config

"""An adapter that makes SmolLM2-135M a Yes/No checker, from the labelled pairs of checker_a.

This made the packaged adapter a, and with --config.data.split=checker_b its twin b; their quality
is in docs/instruments.md. Hardware: one CPU core for 71 minutes, 8 GB.

  python -m asc_jax.tools.train_adapter_checker --config=configs/checker_smollm2.py --out=FOLDER
"""

from asc_jax.config import default_config
from asc_jax.tools.train_adapter_checker import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.prompt = "asc_jax/checkers/prompts/judge_short.txt"
  config.model.lora.rank = 8
  config.model.lora.targets = "q_proj,k_proj,v_proj,o_proj"
  config.data.words = 400
  config.data.documents = 200
  config.data.batch_size = 2
  config.optimizer.learning_rate = 4e-4
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = 20
  return config

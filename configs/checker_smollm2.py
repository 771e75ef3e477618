"""An adapter that makes SmolLM2-135M a Yes/No checker, from the labelled pairs of checker_a.

Not run to its end yet (docs/instruments.md). Hardware: 2 CPU cores, 8 GB.

  python -m asc_jax.tools.train_adapter_checker --config=configs/checker_smollm2.py --out=FOLDER
"""

from asc_jax.config import default_config
from asc_jax.tools.train_adapter_checker import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.prompt = "asc_jax/checkers/prompts/judge_short.txt"
  config.model.lora.rank = 8
  config.model.lora.targets = "q_proj,k_proj,v_proj,o_proj"
  config.optimizer.learning_rate = 1e-3
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = 10
  return config

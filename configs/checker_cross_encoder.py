"""MiniLM fine-tuned as a cross-encoder on the labelled pairs of checker_a.

Not run to its end yet (docs/instruments.md). Hardware: 2 CPU cores, 4 GB.

  python -m asc_jax.tools.train_cross_encoder --config=configs/checker_cross_encoder.py --out=FOLDER
"""

from asc_jax.config import default_config
from asc_jax.tools.train_cross_encoder import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.data.words = 400
  config.data.epochs = 3
  config.optimizer.learning_rate = 2e-4
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = 50
  return config

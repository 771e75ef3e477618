"""MiniLM fine-tuned as a cross-encoder on the labelled pairs of checker_a.

On the mean of the seven sets it is worse than the share of words found (docs/instruments.md); kept
to compare with. Hardware: one CPU core for 57 minutes, 4 GB.

  python -m asc_jax.tools.train_cross_encoder --config=configs/checker_cross_encoder.py --out=FOLDER
"""

from asc_jax.config import default_config
from asc_jax.tools.train_cross_encoder import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.data.words = 400
  config.data.documents = 250
  config.data.batch_size = 2
  config.data.epochs = 2
  config.optimizer.learning_rate = 1e-4
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps = 100
  return config

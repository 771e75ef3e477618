"""The heads of the embedded checker with SmolLM2's likelihoods, on the same labelled pairs.

Not run to its end yet (docs/instruments.md). Hardware: 2 CPU cores, 4 GB; nearly all of the
time goes into SmolLM2's passes, whose features the folder `cache` keeps.

  python -m asc_jax.tools.train_checker --config=configs/checker_likelihood.py
"""

from asc_jax.config import default_config
from asc_jax.tools.train_checker import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.checker = "likelihood"
  config.data.pairs = 250
  config.fit.l2 = 0.1
  return config

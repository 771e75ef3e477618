"""The embedded checker's heads, on the labelled pairs of seven public sets.

A stand-in that makes the machinery run on a laptop; reproduces no table of the paper.
Expected: the tables of docs/instruments.md. Hardware: 2 CPU cores, 3 GB; 21 minutes while
other jobs shared them, nearly all of it embedding 1.2 million word pieces.

  python -m asc_jax.tools.train_checker --config=configs/checker_minilm.py --config.out=FOLDER
"""

from asc_jax.config import default_config
from asc_jax.tools.train_checker import FIELDS


def get_config():
  config = default_config(FIELDS)
  config.data.path = "../shared/data"
  config.fit.l2 = 0.1
  return config

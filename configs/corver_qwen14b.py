"""CorVer: Qwen3-14B on NQ-Open and WebQuestions, with a higher rate and no KL.

The settings and what they reproduce: configs/corver.py.
Hardware: a v5p-8 slice (4 chips of 95 GB): frozen weights of 30 GB in bfloat16, sharded. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_qwen14b.py --workdir=runs/corver_qwen14b \
    --config.model.path=Qwen3-14B --config.corver.index=wikipedia_index \
    --config.data.path=NQ-open.train.jsonl,webquestions.train.json \
    --config.corver.pass_rates=runs/corver_qwen14b_rates.jsonl
"""

import pathlib
import runpy

COMMON = runpy.run_path(str(pathlib.Path(__file__).with_name("corver.py")))


def get_config():
  return COMMON["get_config"]("qwen14b")

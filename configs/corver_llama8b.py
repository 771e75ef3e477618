"""CorVer: Llama-3.1-8B-Instruct on NQ-Open and WebQuestions, the main policy.

The settings and what they reproduce: configs/corver.py.
Hardware: a v5p-8 slice (4 chips of 95 GB): frozen weights of 16 GB in bfloat16, sharded. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_llama8b.py --workdir=runs/corver_llama8b \
    --config.model.path=Llama-3.1-8B-Instruct --config.corver.index=wikipedia_index \
    --config.data.path=NQ-open.train.jsonl,webquestions.train.json \
    --config.corver.pass_rates=runs/corver_llama8b_rates.jsonl
"""

import pathlib
import runpy

COMMON = runpy.run_path(str(pathlib.Path(__file__).with_name("corver.py")))


def get_config():
  return COMMON["get_config"]("llama8b")

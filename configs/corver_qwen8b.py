"""CorVer: Qwen3-8B on NQ-Open and WebQuestions, thinking written in the completion's own tags.

The settings and what they reproduce: configs/corver.py.
Hardware: a v5p-8 slice (4 chips of 95 GB): frozen weights of 16 GB in bfloat16, sharded. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_qwen8b.py --workdir=runs/corver_qwen8b \
    --config.model.path=Qwen3-8B --config.corver.index=wikipedia_index \
    --config.data.path=NQ-open.train.jsonl,webquestions.train.json \
    --config.corver.pass_rates=runs/corver_qwen8b_rates.jsonl
"""

import pathlib
import runpy

COMMON = runpy.run_path(str(pathlib.Path(__file__).with_name("corver.py")))


def get_config():
  return COMMON["get_config"]("qwen8b")

"""CorVer: Qwen3-4B on NQ-Open and WebQuestions, with 1,000 mastered anchors.

The settings and what they reproduce: configs/corver.py.
Hardware: a v5p-8 slice (4 chips of 95 GB), or fewer: frozen weights of 8 GB in bfloat16. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_qwen4b.py --workdir=runs/corver_qwen4b \
    --config.model.path=Qwen3-4B --config.corver.index=wikipedia_index \
    --config.data.path=NQ-open.train.jsonl,webquestions.train.json \
    --config.corver.pass_rates=runs/corver_qwen4b_rates.jsonl
"""

import pathlib
import runpy

COMMON = runpy.run_path(str(pathlib.Path(__file__).with_name("corver.py")))


def get_config():
  return COMMON["get_config"]("qwen4b")

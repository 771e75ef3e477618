"""CorVer: OLMo-2-13B-Instruct on NQ-Open and WebQuestions, with a lower rate and a heavier KL.

The settings and what they reproduce: configs/corver.py.
Hardware: a v5p-8 slice (4 chips of 95 GB): frozen weights of 27 GB in bfloat16, sharded. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_olmo13b.py --workdir=runs/corver_olmo13b \
    --config.model.path=OLMo-2-1124-13B-Instruct --config.corver.index=wikipedia_index \
    --config.data.path=NQ-open.train.jsonl,webquestions.train.json \
    --config.corver.pass_rates=runs/corver_olmo13b_rates.jsonl
"""

import pathlib
import runpy

COMMON = runpy.run_path(str(pathlib.Path(__file__).with_name("corver.py")))


def get_config():
  return COMMON["get_config"]("olmo13b")

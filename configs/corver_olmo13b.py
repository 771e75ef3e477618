"""CorVer: OLMo-2-13B-Instruct on NQ-Open and WebQuestions, with a lower rate and a heavier KL.

Reproduces the OLMo-2-13B-Instruct rows of arXiv 2605.29648, whose average gain on TriviaQA is 4.1
points; its figures for this policy alone are not known to us. LoRA of rank 128, 16
completions a question, 100 steps, lengths, schedule, learning rate and KL weight are the
paper's. Questions a step and sampling temperature are ours: it does not give them. The
ablations are --config.corver.local_weight=0 (A1), judge_weight=0 (A2), unit=answer (A3)
and pass_rates=None (A4), the rules --config.corver.rule=min and relcheck.

The extractor here is the packaged rules; the paper's is a checkpoint of its own:
--config.corver.extractor=QuCo-extractor-0.5B --config.corver.extractor_prompt=PROMPT.txt
The index is one of Wikipedia, made by asc_jax.tools.corver_index.

Hardware: a v5p-8 slice (4 chips of 95 GB): frozen weights of 27 GB in bfloat16, sharded. Hours: not measured.

  python -m asc_jax.main --config=configs/corver_olmo13b.py --workdir=runs/corver_olmo13b \
    --config.model.path=OLMo-2-1124-13B-Instruct --config.data.path=NQ-open.train.jsonl \
    --config.corver.index=wikipedia_index --config.corver.pass_rates=runs/corver_olmo13b_rates.jsonl
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "corver")

  config.model.path = "OLMo-2-1124-13B-Instruct"
  config.model.lora.rank = 128
  config.model.lora.alpha = 256.0
  config.mesh.fsdp = -1

  config.data.corpus = "nq_open"
  config.data.path = "NQ-open.train.jsonl"
  config.data.batch_size = 4
  config.data.prompt_buckets = (128, 256)

  config.rollout.group_size = 16
  config.rollout.max_tokens = 1024
  config.rollout.temperature = 1.0

  config.corver.index = "wikipedia_index"
  config.corver.pass_rates = "pass_rates.jsonl"
  config.corver.anchors = 0

  config.loss.beta = 0.01
  config.optimizer.learning_rate = 3e-6
  config.optimizer.schedule = "cosine"
  config.optimizer.warmup_steps = 3  # 0.03 of the steps
  config.optimizer.clip_norm = 1.0

  config.train.steps = 100
  config.train.checkpoint_every = 10
  config.eval.questions = 200
  return config

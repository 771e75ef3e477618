"""CorVer with the paper's settings, for one of its policies: --config=configs/corver.py:llama8b.

Reproduces that policy's rows of arXiv 2605.29648, Table 1: on TriviaQA the six policies gain
4.1 points on average; the figures of each are not known to us. LoRA of rank 128, 16
completions a question, 100 steps, lengths, schedule, learning rate and KL weight are the
paper's. Questions a step and sampling temperature are ours.

Every ablation and rule is one flag: --config.corver.local_weight=0 (A1), judge_weight=0 (A2),
unit=answer (A3), pass_rates=None (A4), rule=min, rule=relcheck. The extractor is the packaged
rules; the paper's is a checkpoint of its own:
--config.corver.extractor=QuCo-extractor-0.5B --config.corver.extractor_prompt=PROMPT.txt
The index is one of Wikipedia, made by asc_jax.tools.corver_index.

Hardware and the command stand in the policy's own file, configs/corver_*.py.
"""

from asc_jax.config import apply_method, default_config

# Checkpoint folder, mastered anchors (the small ones have some), learning rate, KL weight.
POLICIES = {
  "llama3b": ("Llama-3.2-3B-Instruct", 1000, 1e-5, 1e-3),
  "llama8b": ("Llama-3.1-8B-Instruct", 0, 1e-5, 1e-3),
  "olmo13b": ("OLMo-2-1124-13B-Instruct", 0, 3e-6, 0.01),
  "qwen4b": ("Qwen3-4B", 1000, 1e-5, 1e-3),
  "qwen8b": ("Qwen3-8B", 0, 1e-5, 1e-3),
  "qwen14b": ("Qwen3-14B", 0, 2.5e-5, 0.0),
}


def get_config(policy="llama8b"):
  config = apply_method(default_config(), "corver")
  path, anchors, learning_rate, beta = POLICIES[policy]
  config.model.path, config.corver.anchors = path, anchors
  config.model.lora.rank = 128
  config.model.lora.alpha = 256.0
  config.mesh.fsdp = -1

  config.data.corpus = "nq_open,webquestions"
  config.data.path = "NQ-open.train.jsonl,webquestions.train.json"
  config.data.batch_size = 4
  config.data.prompt_buckets = (128, 256)

  config.rollout.group_size = 16
  config.rollout.max_tokens = 1024
  config.rollout.temperature = 1.0

  config.corver.index = "wikipedia_index"
  config.corver.pass_rates = "pass_rates.jsonl"

  config.loss.beta = beta
  config.optimizer.learning_rate = learning_rate
  config.optimizer.schedule = "cosine"
  config.optimizer.warmup_steps = 3  # 0.03 of the steps

  config.train.steps = 100
  config.train.checkpoint_every = 10
  config.eval.questions = 200
  return config

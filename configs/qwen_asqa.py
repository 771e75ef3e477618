"""Authored-Sentence Credit: Qwen3.5-9B on ASQA, the paper's main setting.

Reproduces the ASQA columns of Table 2 (arXiv 2610.18442), and with another method its
baselines and Table 1. What the paper reports on ASQA, in % but for the words an answer:

  method              --config.method   R     Copy  Words  Vac   Ref   EM
  base model          (eval only)       87.1  38.8  73.5   21.5  6.1   45.5
  GRPO                grpo              98.9  72.8  13.7   18.1  0.0   27.6
  GRPO + KL           grpo_kl           92.3  39.2  60.0   28.5  14.7  41.8
  copy penalty        copy_penalty      92.0  11.8  36.9   67.4  64.5  20.2

Expected with asc, over the paper's 20 settings: authored sentences judged unsupported
(Err) down by 38 % in the median, supported authored sentences per answer (Supp) up by
46 %, and none of the shortcuts in the table above (Copy, Vac, Ref up, Words down).

Group size, KL weight, learning rate, warm-up, epoch and updates a batch are the paper's.
It does not give batch size, temperature and lengths: those here are ours. Its reward
checker is Bespoke-MiniCheck-7B; this file names the packaged stand-in, so that the
results cannot be the paper's until `checker.name` and `checker.path` name that one.

Hardware: a v5p-8 slice (4 chips of 95 GB): parameters, their Adam moments and the
reference, all float32, are 144 GB sharded over fsdp. Hours: not measured.

  python -m asc_jax.main --config=configs/qwen_asqa.py --workdir=runs/qwen_asqa \
    --config.model.path=Qwen3.5-9B --config.data.path=ASQA.json
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "asc")

  config.model.path = "Qwen3.5-9B"
  config.mesh.fsdp = -1

  config.data.corpus = "asqa"
  config.data.path = "ASQA.json"
  config.data.batch_size = 8
  config.data.prompt_buckets = (512, 1024, 2048)

  config.rollout.group_size = 8
  config.rollout.max_tokens = 256
  config.rollout.temperature = 1.0

  config.loss.beta = 0.04
  config.optimizer.learning_rate = 1e-6
  config.optimizer.warmup_steps = 36

  config.train.epochs = 1.0
  config.train.updates_per_batch = 1
  config.train.checkpoint_every = 50
  config.train.eval_every = 100
  config.eval.questions = 200
  return config

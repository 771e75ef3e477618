"""Authored-Sentence Credit: Llama-3.1-8B-Instruct on RAGTruth, the twin of llama_asqa.py.

Reproduces the Llama-3.1-8B rows on RAGTruth of arXiv 2610.18442; its figures for this
policy are not known to us. Expected over the paper's 20 settings: authored sentences
judged unsupported (Err) down by 38 % in the median, supported authored sentences per
answer (Supp) up by 46 %, without the shortcuts (Copy, Vac and Ref up by more than 3
points, or Words under 85 % of the base model's).

Group size, KL weight, learning rate, warm-up, epoch and updates a batch are the paper's.
It does not give batch size, temperature and lengths: those here are ours. Its reward
checker is Bespoke-MiniCheck-7B; this file names the packaged stand-in, so that the
results cannot be the paper's until `checker.name` and `checker.path` name that one.

Hardware: a v5p-8 slice (4 chips of 95 GB): parameters, their Adam moments and the
reference, all float32, are 128 GB sharded over fsdp. Hours: not measured.

  python -m asc_jax.main --config=configs/llama_ragtruth.py --workdir=runs/llama_ragtruth \
    --config.model.path=Llama-3.1-8B-Instruct --config.data.path=RAGTruth/dataset
"""

from asc_jax.config import apply_method, default_config


def get_config():
  config = apply_method(default_config(), "asc")

  config.model.path = "Llama-3.1-8B-Instruct"
  config.mesh.fsdp = -1

  config.data.corpus = "ragtruth"
  config.data.path = "RAGTruth/dataset"
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

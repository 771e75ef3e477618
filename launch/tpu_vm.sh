#!/usr/bin/env bash
# Runs the main job on every worker of a Cloud TPU VM slice.
#
#   bash launch/tpu_vm.sh NAME ZONE --config=configs/llama_asqa.py --workdir=/mnt/runs/llama \
#     --config.model.path=/mnt/models/Llama-3.1-8B-Instruct --config.data.path=/mnt/data/ASQA.json
#
# Model, data and workdir lie on a disk that every worker mounts at the same place (Filestore,
# or a bucket through gcsfuse): each worker reads its part of the weights and of the questions,
# and writes its part of a checkpoint. Make the slice first, for example
#
#   gcloud compute tpus tpu-vm create NAME --zone=ZONE --accelerator-type=v5p-16 \
#     --version=v2-alpha-tpuv5
#
# The same command resumes a run that was stopped. For a slice of one worker it is enough to
# log in, `pip install -e .[tpu]` and run `python -m asc_jax.main` with the same flags.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# < 3)); then
  sed -n '2,17s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
name=$1 zone=$2
shift 2

git archive --format=tar.gz --output=/tmp/asc_jax.tar.gz HEAD
gcloud compute tpus tpu-vm scp /tmp/asc_jax.tar.gz "$name:" --zone="$zone" --worker=all

printf -v flags '%q ' "$@"
gcloud compute tpus tpu-vm ssh "$name" --zone="$zone" --worker=all --command="
  set -e
  mkdir -p asc_jax && tar -xzf asc_jax.tar.gz -C asc_jax && cd asc_jax
  source launch/venv.sh && install tpu
  exec .venv/bin/python -m asc_jax.main $flags"

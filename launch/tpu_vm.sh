#!/usr/bin/env bash
# Runs the main job on a Cloud TPU VM.
#
#   bash launch/tpu_vm.sh NAME ZONE --config=configs/llama_asqa.py --workdir=/mnt/runs/llama \
#     --config.mesh.fsdp=-1 --config.model.path=/mnt/models/Llama-3.1-8B-Instruct \
#     --config.data.path=/mnt/data/ASQA.json
#
# Paths are those on the VM. A slice of one worker is what a run takes today, for example
#
#   gcloud compute tpus tpu-vm create NAME --zone=ZONE --accelerator-type=v5p-8 \
#     --version=v2-alpha-tpuv5
#
# The same command resumes a run that was stopped.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# < 3)); then
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
name=$1 zone=$2
shift 2

git archive --format=tar.gz --output=/tmp/asc_jax.tar.gz HEAD
gcloud compute tpus tpu-vm scp /tmp/asc_jax.tar.gz "$name:" --zone="$zone"

printf -v flags '%q ' "$@"
gcloud compute tpus tpu-vm ssh "$name" --zone="$zone" --command="
  set -e
  mkdir -p asc_jax && tar -xzf asc_jax.tar.gz -C asc_jax && cd asc_jax
  source launch/venv.sh && install tpu
  exec .venv/bin/python -m asc_jax.main $flags"

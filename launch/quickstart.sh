#!/usr/bin/env bash
# The main job on a laptop: installs into .venv, then trains SmolLM2 with sentence credit.
#
#   bash launch/quickstart.sh [--config.field=value ...]
#
# Needs Python 3.11 and a package index. The run fails where it takes more than 10 minutes
# or 6 GB, on two cores, installation not counted.
set -euo pipefail
cd "$(dirname "$0")/.."
source launch/venv.sh

install ""
echo "installed after $SECONDS s"
.venv/bin/python - "$@" <<'PYTHON'
import resource, subprocess, sys, time

MINUTES, GIGABYTES = 10, 6
command = [sys.executable, "-m", "asc_jax.main", "--config=configs/quickstart.py"]
command += ["--workdir=runs/quickstart", *sys.argv[1:]]
print(*command[1:], flush=True)
start = time.perf_counter()
status = subprocess.run(command).returncode
minutes = (time.perf_counter() - start) / 60
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
print(f"run: {minutes:.1f} minutes, peak memory {peak:.1f} GB", flush=True)
if status == 0 and (minutes > MINUTES or peak > GIGABYTES):
  sys.exit(f"FAILED: more than {MINUTES} minutes or {GIGABYTES} GB")
sys.exit(status)
PYTHON

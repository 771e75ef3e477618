#!/usr/bin/env bash
# Everything that must pass: lint, format, types, tests, doctests and the TPU compiler.
#
#   bash launch/test.sh [pytest arguments]
#
# Needs Python 3.11 and a package index; makes .venv. Two workers, a file of tests each.
set -euo pipefail
cd "$(dirname "$0")/.."
source launch/venv.sh

install test,tpu
echo "installed after $SECONDS s"
source .venv/bin/activate
ruff check .
ruff format --check .
mypy
python - "$@" <<'PYTHON'
import resource, subprocess, sys

command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--durations=15"]
status = subprocess.run([*command, *sys.argv[1:]]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
print(f"tests: the largest process took {peak:.1f} GB", flush=True)
sys.exit(status)
PYTHON
echo "everything after $SECONDS s"

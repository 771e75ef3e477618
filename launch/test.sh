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
python -m pytest -q -n 2 --dist loadfile --durations=15 "$@"
echo "everything after $SECONDS s"

#!/usr/bin/env bash
# Exit 0: the packages are there.
set -euo pipefail
/opt/sparecraft/venv/bin/python -c 'import experiments.load.workers.locust.worker'

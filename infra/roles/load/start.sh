#!/usr/bin/env bash
# Runs a load worker, which ends with its block; the service starts it anew.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
cd /opt/sparecraft/bundle/source
exec /opt/sparecraft/venv/bin/python -m experiments.load.workers.locust.worker \
  --master "${LOAD_MASTER:?expected LOAD_MASTER=address in /etc/sparecraft/role.env: the runner}"

#!/usr/bin/env bash
# Runs a load worker, which ends with its block; the service starts it anew. It is a user who may come before other programs,
# as what is late measures itself, and nothing else.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
cd /opt/sparecraft/bundle/source
exec setpriv --reuid load --regid load --clear-groups --no-new-privs \
  --bounding-set -all,+sys_nice --inh-caps -all,+sys_nice --ambient-caps +sys_nice \
  /opt/sparecraft/venv/bin/python -P -m experiments.load.workers.locust.worker \
  --master "${LOAD_MASTER:?expected LOAD_MASTER=address in /etc/sparecraft/role.env: the runner}"

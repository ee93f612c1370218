#!/usr/bin/env bash
# Runs a node of PRESS in the foreground, one of those that PEERS lists.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
# An arm's settings count before the fleet's defaults.
# shellcheck source=/dev/null
[ ! -e /etc/sparecraft/settings.env ] || source /etc/sparecraft/settings.env
set +a
cluster=$(sed -E 's|=([^,]+)|=\1:8090|g' <<<"$PEERS")
# Pages are read by several threads and freed by one: of one arena, their memory is used again.
export MALLOC_ARENA_MAX=1
exec /opt/sparecraft/bin/press --name "$NAME" --peers "$cluster" --root /opt/sparecraft/data --mode "${MODE:-perf}" \
  --listen 0.0.0.0:8080 --admin 127.0.0.1:8081 --cache-mib "${CACHE_MIB:-128}" \
  --window "${WINDOW:-64}" --queue "${QUEUE:-64}" --fail-after-ms "${FAIL_AFTER_MS:-3000}"

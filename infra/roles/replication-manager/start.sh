#!/usr/bin/env bash
# Runs a replication manager in the foreground.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
# An arm's settings count before the fleet's defaults.
# shellcheck source=/dev/null
[ ! -e /etc/sparecraft/settings.env ] || source /etc/sparecraft/settings.env
set +a
exec /opt/sparecraft/bin/parking_lot manage --name "$NAME" --listen 0.0.0.0:7001 --naming "$NAMING" \
  --detection-ms "${FAULT_DETECTION_MS:-1500}"

#!/usr/bin/env bash
# Runs a server of the lots in the foreground; it waits for its database and for etcd.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
# An arm's settings count before the fleet's defaults.
# shellcheck source=/dev/null
[ ! -e /etc/sparecraft/settings.env ] || source /etc/sparecraft/settings.env
set +a
exec /opt/sparecraft/bin/parking_lot serve --name "$NAME" --listen 0.0.0.0:7000 --address "$ADDRESS:7000" --naming "$NAMING" \
  --database "$DATABASE" --padding "${PADDING_BYTES:-0}" --lease-s "${LEASE_S:-0}"

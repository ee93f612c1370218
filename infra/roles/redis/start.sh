#!/usr/bin/env bash
# Runs Redis in the foreground: the tier's primary, or a replica of it where role.env or the sentinels name one.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
# An arm's settings count before the fleet's defaults.
# shellcheck source=/dev/null
[ ! -e /etc/sparecraft/settings.env ] || source /etc/sparecraft/settings.env
set +a
if [ -n "${SENTINELS:-}" ]; then
  install -d -m 755 /run/sparecraft
  rm -f /run/sparecraft/watched
  REDIS_PRIMARY=$(/opt/sparecraft/role/primary.sh)
  [ "$REDIS_PRIMARY" != "$ADDRESS" ] || REDIS_PRIMARY=
fi
replica=()
if [ -n "${REDIS_PRIMARY:-}" ]; then
  replica=(--replicaof "$REDIS_PRIMARY" 6379)
fi
# Debian's program, or one of the same source that agents/harden compiled.
server=/usr/bin/redis-server
if [ "${VARIANT:-debian}" != debian ]; then
  server=/opt/sparecraft/bin/variants/$VARIANT
  if ! [ -x "$server" ]; then
    echo "VARIANT=$VARIANT: expected $server in the image, got none: agents/harden/services/build redis $VARIANT, then build the image again" >&2
    exit 1
  fi
fi
exec setpriv --reuid redis --regid redis --clear-groups \
  "$server" /opt/sparecraft/role/redis.conf "${replica[@]}" \
  ${ADDRESS:+--replica-announce-ip "$ADDRESS"} ${MAXMEMORY_POLICY:+--maxmemory-policy "$MAXMEMORY_POLICY"}

#!/usr/bin/env bash
# Runs memcached in the foreground; its content is loaded as soon as it listens.
set -euo pipefail
set -a
for file in /etc/sparecraft/role.env /etc/sparecraft/settings.env; do
  # An arm's settings count before the fleet's defaults.
  # shellcheck source=/dev/null
  [ ! -e "$file" ] || source "$file"
done
set +a
rm -f /run/sparecraft/loaded
# Debian's program, or one of the same source that agents/harden compiled.
server=/usr/bin/memcached
if [ "${VARIANT:-debian}" != debian ]; then
  server=/opt/sparecraft/bin/variants/$VARIANT
  if ! [ -x "$server" ]; then
    echo "VARIANT=$VARIANT: expected $server in the image, got none: agents/harden/services/build memcached $VARIANT, then build the image again" >&2
    exit 1
  fi
fi
/opt/sparecraft/role/load.sh &
exec "$server" --user=memcache --listen=0.0.0.0 --port=11211 --udp-port=0 --memory-limit=96 --conn-limit=2048 --threads=1

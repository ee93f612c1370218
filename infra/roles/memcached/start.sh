#!/usr/bin/env bash
# Runs memcached in the foreground; its content is loaded as soon as it listens.
set -euo pipefail
rm -f /run/sparecraft/loaded
/opt/sparecraft/role/load.sh &
exec /usr/bin/memcached --user=memcache --listen=0.0.0.0 --port=11211 --udp-port=0 --memory-limit=96 --conn-limit=2048 --threads=1

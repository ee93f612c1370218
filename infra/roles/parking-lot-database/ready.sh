#!/usr/bin/env bash
# Exit 0: the database answers the lots' account over the network.
set -euo pipefail
exec timeout 5 mariadb --no-defaults --host=127.0.0.1 --connect-timeout=3 --user=lots --password=lots \
  --execute='SELECT 1' lots >/dev/null

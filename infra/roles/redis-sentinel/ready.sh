#!/usr/bin/env bash
# Exit 0: the sentinel answers; the redis machines tell it later which tier to watch.
set -euo pipefail
answer=$(timeout 3 redis-cli -p 26379 ping 2>&1) || true
if [ "$answer" != PONG ]; then
  printf 'ready: expected PONG, got: %s\n' "${answer:-nothing}" >&2
  exit 1
fi

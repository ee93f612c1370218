#!/usr/bin/env bash
# Exit 0: Redis answers and holds its content; a replica need not have met its primary.
set -euo pipefail
records=$(timeout 3 redis-cli dbsize 2>&1) || true
if ! [ "$records" -ge 21400 ] 2>/dev/null; then
  printf 'ready: expected at least 21400 records, got: %s\n' "${records:-nothing}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: the server reads through a quorum, which has a leader.
set -euo pipefail

get() {
  exec 3<>/dev/tcp/127.0.0.1/2379
  printf 'GET /health HTTP/1.0\r\n\r\n' >&3
  cat <&3
}
export -f get
answer=$(timeout 4 bash -c get 2>/dev/null) || true
if [[ "$answer" != *'"health":"true"'* ]]; then
  printf 'ready: expected health in /health, got: %.200s\n' "${answer:-nothing}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: the node serves; in the tightly coupled configuration once the cluster is formed, and while it waits for no other.
set -euo pipefail

get() {
  exec 3<>/dev/tcp/127.0.0.1/8081
  printf 'GET /health HTTP/1.1\r\nHost: press\r\n\r\n' >&3
  cat <&3
}
export -f get
answer=$(timeout 3 bash -c get 2>/dev/null) || true
if [[ "$answer" != "HTTP/1.1 200 "* ]]; then
  printf 'ready: expected status 200 from /health, got: %.200s\n' "${answer:-nothing}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: the service answers. Bounded in time and cheap: it is called each second until then.
set -euo pipefail

get() {
  exec 3<>/dev/tcp/127.0.0.1/8080
  printf 'GET /flag/IS HTTP/1.0\r\n\r\n' >&3
  cat <&3
}
export -f get
answer=$(timeout 3 bash -c get 2>/dev/null) || true
if [[ "$answer" != *Iceland* ]]; then
  printf 'ready: expected the page of Iceland, got: %s\n' "${answer:0:120}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: nginx answers by itself. A service that is down does not make the front end look broken.
set -euo pipefail

get() {
  exec 3<>/dev/tcp/127.0.0.1/80
  printf 'GET / HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
  cat <&3
}
export -f get
answer=$(timeout 3 bash -c get 2>/dev/null) || true
if [[ "$answer" != *"<title>Dictionary"* ]]; then
  printf 'ready: expected the start page, got: %s\n' "${answer:0:120}" >&2
  exit 1
fi

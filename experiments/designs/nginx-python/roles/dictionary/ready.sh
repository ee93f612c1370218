#!/usr/bin/env bash
# Exit 0: a search finds an entry.
set -euo pipefail

get() {
  exec 3<>/dev/tcp/127.0.0.1/8000
  printf 'GET /search?q=reliable HTTP/1.0\r\n\r\n' >&3
  cat <&3
}
export -f get
answer=$(timeout 3 bash -c get 2>/dev/null) || true
if [[ "$answer" != *"<dt>"* ]]; then
  printf 'ready: expected an entry for "reliable", got: %s\n' "${answer:0:120}" >&2
  exit 1
fi

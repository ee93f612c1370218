#!/usr/bin/env bash
# Exit 0: the cache answers and holds its content.
set -euo pipefail

ask() {
  exec 3<>/dev/tcp/127.0.0.1/11211
  printf 'get sparecraft:loaded\r\nquit\r\n' >&3
  cat <&3
}
export -f ask
answer=$(timeout 3 bash -c ask 2>/dev/null) || true
if [[ "$answer" != *yes* ]]; then
  printf 'ready: expected the key sparecraft:loaded in the cache, got: %q\n' "${answer:-nothing}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: the cache answers and has been filled. An arbiter may have emptied it since: one that missed a write
# holds what is stale.
set -euo pipefail

ask() {
  exec 3<>/dev/tcp/127.0.0.1/11211
  printf 'version\r\nquit\r\n' >&3
  cat <&3
}
export -f ask
answer=$(timeout 3 bash -c ask 2>/dev/null) || true
if [[ "$answer" != VERSION* ]]; then
  printf 'ready: expected the version of the cache, got: %q\n' "${answer:-nothing}" >&2
  exit 1
fi
if ! [ -e /run/sparecraft/loaded ]; then
  printf 'ready: expected the cache to be filled, it is being so\n' >&2
  exit 1
fi

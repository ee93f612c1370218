#!/usr/bin/env bash
# Exit 0: the server serves, as leader or follower of a quorum.
set -euo pipefail

ask() {
  exec 3<>/dev/tcp/127.0.0.1/2181
  printf srvr >&3
  cat <&3
}
export -f ask
answer=$(timeout 3 bash -c ask 2>/dev/null) || true
if ! [[ "$answer" =~ Mode:\ (leader|follower|standalone) ]]; then
  printf 'ready: expected the mode of a member of a quorum, got: %s\n' "${answer:-nothing}" >&2
  exit 1
fi

#!/usr/bin/env bash
# Exit 0: the arbiter's admin port answers. Whether its servers are alive is in that answer, not in this check.
set -euo pipefail
config=/etc/sparecraft/arbiter.toml
admin=$(sed -n 's/^admin *= *"\([0-9.]*:[0-9]*\)".*/\1/p' "$config")
if [ -z "$admin" ]; then
  echo "ready: expected admin = \"ADDRESS:PORT\" in $config" >&2
  exit 1
fi

get() { # address, port: prints the first line of the answer
  exec 3<>"/dev/tcp/$1/$2"
  printf 'GET /v1/stats HTTP/1.1\r\nHost: arbiter\r\nConnection: close\r\n\r\n' >&3
  head -n 1 <&3
}
export -f get
answer=$(timeout 3 bash -c "get ${admin%:*} ${admin#*:}" 2>/dev/null) || true
if [[ "$answer" != *" 200 "* ]]; then
  printf 'ready: expected status 200 from %s/v1/stats, got: %s\n' "$admin" "${answer:-nothing}" >&2
  exit 1
fi

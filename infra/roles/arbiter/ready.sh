#!/usr/bin/env bash
# Exit 0: the arbiter's admin port answers, be it that it speaks TLS only. Whether its servers are alive is its clients' to ask.
set -euo pipefail
config=/etc/sparecraft/arbiter.toml
admin=$(sed -n 's/^admin *= *"\([0-9.]*:[0-9]*\)".*/\1/p' "$config")
if [ -z "$admin" ]; then
  echo "ready: expected admin = \"ADDRESS:PORT\" in $config" >&2
  exit 1
fi

get() { # address, port: prints how many bytes came, one at the most
  exec 3<>"/dev/tcp/$1/$2"
  # In one write, which bash's own printf does not: what comes after TLS's refusal would reset the connection before that is read.
  env printf 'GET /v1/stats HTTP/1.1\r\nHost: arbiter\r\nConnection: close\r\n\r\n' >&3
  head -c 1 <&3 | wc -c
}
export -f get
answer=$(timeout 3 bash -c "get ${admin%:*} ${admin#*:}" 2>/dev/null) || true
if [ "$answer" != 1 ]; then
  printf 'ready: expected an answer from %s, got none within 3 s\n' "$admin" >&2
  exit 1
fi

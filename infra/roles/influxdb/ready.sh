#!/usr/bin/env bash
# Exit 0: InfluxDB answers /ping, and the database is there.
set -euo pipefail

get() { # path: prints the answer
  exec 3<>/dev/tcp/127.0.0.1/8086
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  cat <&3
}
export -f get

expect() { # path, text that the answer must contain
  local answer
  answer=$(timeout 3 bash -c "get '$1'" 2>/dev/null) || true
  if [[ "$answer" != *"$2"* ]]; then
    printf 'ready: expected %q in %s, got: %s\n' "$2" "$1" "${answer:0:120}" >&2
    exit 1
  fi
}

expect /ping ' 204 '
expect '/query?q=SHOW+DATABASES' '"sparecraft"'

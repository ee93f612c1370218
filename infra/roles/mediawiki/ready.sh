#!/usr/bin/env bash
# Exit 0: the web machine serves. After a start, that means one whole page, through PHP and the database
# (which also compiles the code); from then on, a static file from a worker: cheap, and a broken database tier
# does not make the web tier look broken.
set -euo pipefail
flag=/run/sparecraft/served-a-page
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a

get() { # path: prints the answer
  exec 3<>/dev/tcp/127.0.0.1/80
  printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
  cat <&3
}

if [ -z "${DB_HOST:-}" ]; then
  path=/loop.php
  expected='1000 turns'
elif [ -e "$flag" ]; then
  path=/ping.txt
  expected=$'\nready'
else
  path=/wiki/Main_Page
  expected='>Main Page<'
fi
export -f get
answer=$(timeout 5 bash -c "get $path" 2>/dev/null) || true
if [[ "$answer" != *"$expected"* ]]; then
  printf 'ready: expected %q in %s, got: %s\n' "$expected" "$path" "${answer:0:120}" >&2
  exit 1
fi
touch "$flag"

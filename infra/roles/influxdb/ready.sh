#!/usr/bin/env bash
# Exit 0: InfluxDB answers /ping, and the fleet's user sees the database. As long as there is no user InfluxDB lets
# anyone make the first, and do nothing else; that is done here. Where somebody was quicker it is never ready.
set -euo pipefail
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
login=$(</etc/sparecraft/influxdb-login)
export login listens=$INFLUXDB_HTTP_BIND_ADDRESS form=''

# By bash alone and from the environment, so that the password is in no program's arguments.
ask() { # request: prints the answer; `form` is its body
  exec 3<>"/dev/tcp/${listens%:*}/${listens##*:}"
  printf '%s\r\n' "$1 HTTP/1.0" "Authorization: Basic $(printf %s "$login" | base64 -w 0)" \
    'Content-Type: application/x-www-form-urlencoded' "Content-Length: ${#form}" '' >&3
  printf %s "$form" >&3
  cat <&3
}
export -f ask

answer_to() { # request, body
  form=$2 timeout 3 bash -c "ask '$1'" 2>/dev/null || true
}

expect() { # text that the answer must contain, request, body
  local answer
  answer=$(answer_to "$2" "$3")
  if [[ "$answer" != *"$1"* ]]; then
    printf 'ready: expected %q in the answer to %s, got: %s\n' "$1" "$2 $3" "${answer:0:120}" >&2
    return 1
  fi
}

expect ' 204 ' 'GET /ping' ''
shown=('"sparecraft"' 'POST /query' 'q=SHOW DATABASES')
if ! expect "${shown[@]}" 2>/dev/null; then
  answer_to 'POST /query' "q=CREATE USER ${login%%:*} WITH PASSWORD '${login#*:}' WITH ALL PRIVILEGES" >/dev/null
  expect "${shown[@]}"
fi

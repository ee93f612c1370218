#!/usr/bin/env bash
# Exit 0: Redis answers and holds its content; a replica need not have met its primary. Where sentinels promote, a
# replica is ready once most of them know it, which takes them up to 10 s: before that it cannot be promoted.
set -euo pipefail
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
flag=/run/sparecraft/watched

watchers() { # prints how many sentinels know this machine as a replica that is well
  local sentinel
  for sentinel in ${SENTINELS//,/ }; do
    timeout 1 redis-cli --raw -h "${sentinel%:*}" -p "${sentinel##*:}" sentinel replicas "$TIER" 2>/dev/null |
      paste -d= - - | awk -F= -v own="$ADDRESS" '$1 == "ip" { ip = $2 } $1 == "flags" && ip == own && $2 == "slave"' || true
  done | wc -l
}

records=$(timeout 3 redis-cli dbsize 2>&1) || true
if ! [ "$records" -ge 21400 ] 2>/dev/null; then
  printf 'ready: expected at least 21400 records, got: %s\n' "${records:-nothing}" >&2
  exit 1
fi
if [ -n "${SENTINELS:-}" ] && ! [ -e "$flag" ]; then
  if [ "$(timeout 3 redis-cli --raw role | head -n 1)" = slave ]; then
    all=${SENTINELS//[^,]/}
    known=$(watchers)
    if [ "$known" -lt $(((${#all} + 1) / 2 + 1)) ]; then
      printf 'ready: expected most sentinels of %s to know this replica, got: %s\n' "$SENTINELS" "$known" >&2
      exit 1
    fi
  fi
  touch "$flag"
fi

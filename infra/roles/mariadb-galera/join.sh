#!/usr/bin/env bash
# Ends once this machine can start: prints "first" where it has to make the tier's primary component; where one runs,
# "joins" and the machines that it may copy from, which take no writes: a copy of everything stops the copied one.
# $1: its position, HISTORY:NUMBER.
#
# While no machine of the tier runs, each tells the others its position and the machines of the last primary component
# that it remembers. Once all machines are there that one of them remembers (of a new tier: all active ones), the one
# with most writes is the first. Whoever acknowledged a write was in such a component, so no acknowledged write is left
# behind.
# shellcheck disable=SC2153 # start.sh exports NAME, ADDRESS, PEERS and NODES
set -euo pipefail
readonly PORT=4566 TRIES_MAX=100000
offer=/run/mysqld/offer

echo "${1#*:} $(cat /opt/sparecraft/data/component 2>/dev/null || true)" >"$offer"
socat "TCP-LISTEN:$PORT,bind=$ADDRESS,reuseaddr,fork" "OPEN:$offer,rdonly" &
trap 'kill %1 2>/dev/null || true' EXIT

ask() { # address, statement: the answer of its server
  timeout 2 mariadb --no-defaults --host="$1" --connect-timeout=1 --user=records --password=records --batch \
    --skip-column-names --execute="$2" 2>/dev/null
}

donors() { # address: the machines other than this one that do not take writes, as a server knows them
  local writer peer
  writer=$(ask "$1" 'SELECT name FROM tier.writer') || writer=''
  for peer in "${peers[@]}"; do
    peer=${peer%%=*}
    [ "$peer" = "$NAME" ] || [ "$peer" = "$writer" ] || echo "$peer"
  done | paste -sd,
}

IFS=, read -ra peers <<<"$PEERS"
for ((try = 0; try < TRIES_MAX; try++)); do
  declare -A positions=()
  remembered=
  for peer in "${peers[@]}"; do
    name=${peer%%=*} address=${peer#*=}
    if [ "$name" = "$NAME" ]; then
      answer=$(cat "$offer")
    elif [ "$(ask "$address" "SHOW STATUS LIKE 'wsrep_cluster_status'")" = $'wsrep_cluster_status\tPrimary' ]; then
      echo "joins $(donors "$address")"
      exit 0
    else
      answer=$(timeout 2 socat -u "TCP:$address:$PORT,connect-timeout=1" - 2>/dev/null || true)
    fi
    if [ -n "$answer" ]; then
      positions[$name]=${answer%% *}
      remembered="$remembered ${answer#* }"
    fi
  done
  if [ -z "${remembered// /}" ]; then
    remembered=$(printf '%s\n' "${peers[@]:0:NODES}" | cut -d= -f1)
  fi
  leader='' missing=''
  for name in $remembered; do
    [ -n "${positions[$name]:-}" ] || missing="$missing $name"
  done
  for peer in "${peers[@]}"; do
    name=${peer%%=*}
    if [ -n "${positions[$name]:-}" ] && { [ -z "$leader" ] || [ "${positions[$name]}" -gt "${positions[$leader]}" ]; }; then
      leader=$name
    fi
  done
  if [ -z "$missing" ] && [ "$leader" = "$NAME" ]; then
    echo first
    exit 0
  fi
  awaited="waits for${missing:- the server of $leader}"
  [ "$awaited" = "${shown:-}" ] || echo "$awaited" >&2
  shown=$awaited
  sleep 0.5
done
exit 1

#!/usr/bin/env bash
# Prints the address of the tier's primary, as most sentinels name it; tells the tier to sentinels that do not know it.
#
# A primary that starts again has lost its writes, which its replicas have. So it waits until the sentinels have
# promoted one of them, unless no replica has had its data.
# shellcheck disable=SC2153 # start.sh exports SENTINELS, TIER, ADDRESS, PEERS and FIRST
set -euo pipefail
readonly DOWN_AFTER_MS=5000 # of silence, before sentinels promote another machine
readonly TRIES_MAX=600

ask() { # address, port, command: its answer, or nothing
  timeout 2 redis-cli --raw -h "$1" -p "$2" "${@:3}" 2>/dev/null || true
}

is_replicated() { # true if another machine has had the data of a primary, or is one
  local peer info
  for peer in "${peers[@]}"; do
    [ "${peer#*=}" != "$ADDRESS" ] || continue
    info=$(ask "${peer#*=}" 6379 info replication)
    if grep -qE '^(role:master|master_link_status:up|master_link_down_since_seconds:[0-9])' <<<"$info"; then
      return 0
    fi
  done
  return 1
}

running_primary() { # prints another machine that is one
  local peer
  for peer in "${peers[@]}"; do
    if [ "$(ask "${peer#*=}" 6379 role | head -n 1)" = master ]; then
      echo "${peer#*=}"
      return
    fi
  done
}

IFS=, read -ra sentinels <<<"$SENTINELS"
IFS=, read -ra peers <<<"$PEERS"
majority=$((${#sentinels[@]} / 2 + 1))
for ((try = 0; try < TRIES_MAX; try++)); do
  declare -A votes=()
  answering=0 unaware=() named=
  for sentinel in "${sentinels[@]}"; do
    address=${sentinel%:*} port=${sentinel##*:}
    [ "$(ask "$address" "$port" ping)" = PONG ] || continue
    answering=$((answering + 1))
    vote=$(ask "$address" "$port" sentinel get-master-addr-by-name "$TIER" | head -n 1)
    if [ -z "$vote" ]; then
      unaware+=("$sentinel")
      continue
    fi
    votes[$vote]=$((${votes[$vote]:-0} + 1))
    if [ -z "$named" ] || [ "${votes[$vote]}" -gt "${votes[$named]}" ]; then named=$vote; fi
  done
  # No sentinel knows the tier: they are new, or it is the tier's first start.
  if [ -z "$named" ] && [ "$answering" = "${#sentinels[@]}" ]; then
    named=$(running_primary)
    if [ -z "$named" ] && [ "$ADDRESS" = "$FIRST" ] && ! is_replicated; then named=$FIRST; fi
  fi
  if [ -n "$named" ]; then
    for sentinel in "${unaware[@]}"; do
      address=${sentinel%:*} port=${sentinel##*:}
      ask "$address" "$port" sentinel monitor "$TIER" "$named" 6379 "$majority" >&2
      ask "$address" "$port" sentinel set "$TIER" down-after-milliseconds "$DOWN_AFTER_MS" failover-timeout 10000 >&2
    done
    if [ "${votes[$named]:-0}" -ge "$majority" ] && { [ "$named" != "$ADDRESS" ] || ! is_replicated; }; then
      echo "$named"
      exit 0
    fi
  fi
  sleep 1
done
echo "SENTINELS=$SENTINELS: expected a majority to name a primary of tier $TIER, got ${named:-none}" >&2
exit 1

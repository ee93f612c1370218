#!/usr/bin/env bash
# Exit 0: the node answers a query of its system tables, and has met every node of the ring since it started.
# shellcheck source=infra/roles/java/common.sh
source /opt/sparecraft/role/common.sh
# Frames of the native protocol, version 1 or 4: version, flags, a stream's number of one or two bytes, operation, length, body.
if [ "$GENERATION" = old ]; then head='\x01\x00\x00' length='\x27' flags=; else head='\x04\x00\x00\x00' length='\x28' flags='\x00'; fi
export startup="$head\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"
export query="$head\x07\x00\x00\x00$length\x00\x00\x00\x21SELECT COUNT(*) FROM system.peers\x00\x01$flags"
export head_bytes=$((${#head} / 4 + 5))

answer() { # operation and body of the next frame, in hexadecimal digits
  local part
  read -ra part < <(head -c "$head_bytes" <&3 | od -An -v -tx1)
  echo "${part[head_bytes - 5]}$(head -c $((16#${part[head_bytes - 2]}${part[head_bytes - 1]})) <&3 | od -An -v -tx1 | tr -d ' \n')"
}
ask() {
  exec 3<>"/dev/tcp/$ADDRESS/9042"
  printf '%b' "$startup" >&3
  answer >/dev/null
  printf '%b' "$query" >&3
  answer
}
export -f answer ask
found=$(timeout 4 bash -c ask 2>/dev/null) || true
if ! [[ "$found" =~ ^08.*00000008([0-9a-f]{16})$ ]]; then # a result that ends in a number of eight bytes
  printf 'ready: expected the number of peers, got: %.200s\n' "${found:-nothing}" >&2
  exit 1
fi
peers=$((16#${BASH_REMATCH[1]}))
# Later a dead node does not make the others look dead.
if ! [ -e "$run/whole" ] && [ "$peers" -lt $((NODES - 1)) ]; then
  printf 'ready: expected %s peers, got: %s\n' $((NODES - 1)) "$peers" >&2
  exit 1
fi
touch "$run/whole"

#!/usr/bin/env bash
# Lets exactly one machine of the primary component take writes: the one that the table tier.writer names. If that one
# is not in the component, the first machine whose UPDATE is certified takes its place; it then has applied all writes
# before.
set -euo pipefail
readonly TRIES_MAX=6000
run=/run/mysqld

sql() {
  timeout 20 mariadb --no-defaults --socket="$run/mysqld.sock" --connect-timeout=3 --batch --skip-column-names --execute="$1"
}

exec 9>"$run/primary.lock"
flock 9
for ((try = 0; try < TRIES_MAX; try++)); do
  # Another change may have come meanwhile; the last one counts.
  names=$(cat "$run/component" 2>/dev/null) || exit 0
  if [ -z "$names" ]; then
    statement='SET GLOBAL read_only = 1'
  else
    statement="UPDATE tier.writer SET name = '$NAME' WHERE name NOT IN ('${names// /\',\'}');
      SET GLOBAL read_only = IF((SELECT name FROM tier.writer WHERE id = 1) = '$NAME', 0, 1)"
  fi
  # It fails while the server starts, and while it copies.
  if sql "$statement" 2>"$run/primary.error"; then exit 0; fi
  pgrep -x mariadbd >/dev/null || exit 0
  sleep 0.1
done

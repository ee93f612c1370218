#!/usr/bin/env bash
# Exit 0: the server is in the primary component and has all writes and records; where it is the one that takes writes,
# it takes them.
set -euo pipefail
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
answer=$(timeout 5 mariadb --no-defaults --host=127.0.0.1 --connect-timeout=3 --user=records --password=records \
  --batch --skip-column-names records --execute="
    SHOW STATUS LIKE 'wsrep_ready';
    SELECT COUNT(*) >= 2000 FROM usertable;
    SELECT name <> '' AND (name <> '$NAME' OR NOT @@global.read_only) FROM tier.writer" 2>&1) || true
if [ "$answer" != $'wsrep_ready\tON\n1\n1' ]; then
  printf 'ready: expected wsrep_ready ON, 2000 records and a writer, got: %s\n' "${answer:-nothing}" >&2
  exit 1
fi

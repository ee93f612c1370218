#!/usr/bin/env bash
# Exit 0: a reader finds an entry; a replica need not have met its primary.
set -euo pipefail
found=$(timeout 3 psql -qtA -h /run/postgresql -U reader -d dictionary \
  -c "SELECT headword FROM entry WHERE lower(headword) = 'reliable' LIMIT 1" 2>&1) || true
if [ "$found" != Reliable ]; then
  printf 'ready: expected the entry Reliable, got: %s\n' "${found:0:120}" >&2
  exit 1
fi

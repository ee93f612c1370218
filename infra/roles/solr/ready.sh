#!/usr/bin/env bash
# Exit 0: a search finds an entry.
set -euo pipefail
answer=$(curl -s --max-time 4 'http://127.0.0.1:8983/solr/dictionary/select?q=dictionary&rows=1') || true
if [[ "$answer" != *'"headword"'* ]]; then
  printf 'ready: expected an entry for the word dictionary, got: %s\n' "${answer:0:200}" >&2
  exit 1
fi

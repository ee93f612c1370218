#!/usr/bin/env bash
# Exit 0: the replica accepts connections over the network and answers from the wiki's tables.
set -euo pipefail
exec timeout 5 mariadb --no-defaults --host=127.0.0.1 --connect-timeout=3 --user=wiki --password=wiki-read \
  --execute='SELECT page_id FROM page LIMIT 1' wiki >/dev/null

#!/usr/bin/env bash
# Runs the server in the foreground: SIGTERM ends it, and it starts again whatever a SIGKILL left.
set -euo pipefail
set -a # what the fleet says of this machine, then what an arm says
# shellcheck source=/dev/null
for file in /etc/sparecraft/role.env /etc/sparecraft/settings.env; do
  if [ -e "$file" ]; then source "$file"; fi
done
set +a
exec setpriv --reuid nobody --regid nogroup --clear-groups python3 /opt/sparecraft/role/shop.py

#!/usr/bin/env bash
# Runs Apache in the foreground. Works also after a SIGKILL: what the dead one left is removed.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
: "${SOLR_HOST:?expected SOLR_HOST=address in /etc/sparecraft/role.env: the arbiter of the search tier}"
install -d -m 755 /run/apache2
rm -f /run/apache2/apache2.pid
exec /usr/sbin/apache2 -f /etc/apache2/sparecraft.conf -DFOREGROUND

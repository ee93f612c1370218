#!/usr/bin/env bash
# Runs Apache in the foreground. Works also after a SIGKILL: what the dead one left is removed.
# As role `apache` without a backend it serves a static file and PHP, and no wiki.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
set +a
[ "${ROLE:-}" = apache ] || : "${DB_HOST:?expected DB_HOST=address in /etc/sparecraft/role.env: the arbiter of the database tier}"
install -d -m 755 /run/apache2 /run/sparecraft
rm -f /run/apache2/apache2.pid /run/sparecraft/served-a-page
exec /usr/sbin/apache2 -f /etc/apache2/sparecraft.conf -DFOREGROUND

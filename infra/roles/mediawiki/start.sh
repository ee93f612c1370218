#!/usr/bin/env bash
# Runs Apache in the foreground. Works also after a SIGKILL: what the dead one left is removed.
# As role `apache` without a backend it serves a static file and PHP, and no wiki.
set -euo pipefail
set -a
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
# An arm's settings count before the fleet's defaults.
# shellcheck source=/dev/null
[ ! -e /etc/sparecraft/settings.env ] || source /etc/sparecraft/settings.env
set +a
[ "${ROLE:-}" = apache ] || : "${DB_HOST:?expected DB_HOST=address in /etc/sparecraft/role.env: the arbiter of the database tier}"
install -d -m 755 /run/apache2 /run/sparecraft
rm -f /run/apache2/apache2.pid /run/sparecraft/served-a-page
configuration=/etc/apache2/sparecraft.conf
# Debian's program, or one of the same source that agents/harden compiled.
server=/usr/sbin/apache2
if [ "${VARIANT:-debian}" != debian ]; then
  server=/opt/sparecraft/bin/variants/$VARIANT
  if ! [ -x "$server" ]; then
    echo "VARIANT=$VARIANT: expected $server in the image, got none: agents/harden/services/build apache2 $VARIANT, then build the image again" >&2
    exit 1
  fi
fi
if [ "$server" != /usr/sbin/apache2 ]; then # these have Apache's own modules in themselves
  configuration=/run/sparecraft/variant.conf
  sed '/^LoadModule/d' /etc/apache2/sparecraft.conf >"$configuration"
fi
exec "$server" -f "$configuration" -DFOREGROUND

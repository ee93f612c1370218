#!/usr/bin/env bash
# Runs a sentinel in the foreground. It keeps what it knows in its file, which the redis machines fill (primary.sh).
set -euo pipefail
# shellcheck source=/dev/null
source /etc/sparecraft/role.env
file=/opt/sparecraft/data/sentinel.conf
if ! [ -e "$file" ]; then
  install -m 600 -o redis -g redis /dev/stdin "$file" <<END
bind 0.0.0.0
port 26379
protected-mode no
daemonize no
dir /opt/sparecraft/data
sentinel announce-ip $ADDRESS
END
fi
exec setpriv --reuid redis --regid redis --clear-groups /usr/bin/redis-sentinel "$file"

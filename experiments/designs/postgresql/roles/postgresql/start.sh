#!/usr/bin/env bash
# Runs PostgreSQL in the foreground: the tier's primary, or a replica of it where role.env names one.
# Works also after a SIGKILL: the log is replayed, and the dead server's lock is removed.
set -euo pipefail
set -a # what the fleet says of this machine, then what an arm says
# shellcheck source=/dev/null
for file in /etc/sparecraft/role.env /etc/sparecraft/settings.env; do
  if [ -e "$file" ]; then source "$file"; fi
done
set +a
data=/opt/sparecraft/data
bins=(/usr/lib/postgresql/*/bin)
install -d -m 755 -o postgres -g postgres /run/postgresql
rm -f "$data/postmaster.pid"
options=(-c config_file=/opt/sparecraft/role/postgresql.conf -c ident_file=/dev/null)
options+=(-c "shared_buffers=$SHARED_BUFFERS" -c "work_mem=$WORK_MEM")
if [ -n "${PRIMARY:-}" ]; then
  install -m 600 -o postgres -g postgres /dev/null "$data/standby.signal"
  options+=(-c "primary_conninfo=host=$PRIMARY port=5432 user=replicator connect_timeout=3")
fi
setpriv --reuid postgres --regid postgres --init-groups \
  "${bins[-1]}/postgres" -D "$data" "${options[@]}" &
server=$!
# At SIGTERM PostgreSQL waits for its clients to leave; SIGINT ends them and leaves the files clean.
trap 'kill -INT $server' TERM
wait "$server" || true # also ended by the signal: then the server is still at it
wait "$server"

#!/usr/bin/env bash
# Makes the data directory that every machine starts from, with the text of Debian's dict-gcide.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null
role=/opt/sparecraft/role
data=/opt/sparecraft/data
bins=(/usr/lib/postgresql/*/bin)
bin=${bins[-1]}
cd /tmp

python3 "$role/entries.py" /usr/share/dictd/gcide >entries.csv
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
as_postgres "$bin/initdb" -D "$data" --encoding UTF8 --locale C.UTF-8 --auth peer --data-checksums >/dev/null
rm "$data/postgresql.conf" "$data/pg_hba.conf" "$data/pg_ident.conf"
as_postgres "$bin/pg_ctl" -D "$data" -w -s -o "-c config_file=$role/postgresql.conf -c listen_addresses= -c ident_file=/dev/null" start
as_postgres createdb dictionary
as_postgres psql -q -d dictionary -f "$role/schema.sql"
# Every row is frozen and every hint bit set, so that a reader writes nothing.
as_postgres psql -q -d dictionary -c 'VACUUM (FREEZE, ANALYZE) entry'
missing=$(as_postgres psql -qtA -d dictionary <<'SQL'
CREATE TEMPORARY TABLE word (word text);
\copy word FROM '/opt/sparecraft/role/words.txt'
SELECT word FROM word WHERE NOT EXISTS (SELECT FROM entry WHERE search @@ plainto_tsquery('english', word));
SQL
)
[ -z "$missing" ] || { echo "expected every word of words.txt in an entry, but none has: $missing" >&2; exit 1; }
as_postgres "$bin/pg_ctl" -D "$data" -w -s -m fast stop

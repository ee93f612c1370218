#!/usr/bin/env bash
# Makes the data directory: a table of records of YCSB's form with the text of the dict-gcide dictionary, and the
# position of a Galera history that begins with it.
set -euo pipefail
role=/opt/sparecraft/role
data=/opt/sparecraft/data
work=$(mktemp -d)
socket=$work/mariadb.sock
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null

sql() { mariadb --socket="$socket" --user=root --batch --skip-column-names "$@"; }

serve() { # options: runs the server until it answers
  mariadbd --defaults-file="$role/my.cnf" --wsrep-notify-cmd= --skip-networking --read-only=OFF --socket="$socket" \
    --pid-file="$work/pid" --innodb-flush-log-at-trx-commit=0 --innodb-fast-shutdown=0 "$@" 2>"$work/mariadbd.log" &
  server=$!
  until sql -e 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { tail "$work/mariadbd.log" >&2; exit 1; }
    sleep 0.2
  done
}

chmod 1777 "$work"
mariadb-install-db --defaults-file="$role/my.cnf" --wsrep-on=OFF --skip-test-db \
  --auth-root-authentication-method=socket >/dev/null
serve --wsrep-on=OFF --wsrep-provider=none
fields=$(printf 'field%d VARCHAR(100) NOT NULL, ' {0..9})
sql <<END
CREATE DATABASE records;
CREATE TABLE records.usertable (ycsb_key VARCHAR(32) PRIMARY KEY, $fields updates INT NOT NULL) CHARACTER SET latin1;
CREATE DATABASE tier;
CREATE TABLE tier.writer (id INT PRIMARY KEY, name VARCHAR(64) NOT NULL);
INSERT INTO tier.writer VALUES (1, '');
CREATE USER records@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('records');
GRANT SELECT, INSERT, UPDATE, DELETE ON records.* TO records@'%';
GRANT SELECT ON tier.* TO records@'%';
CREATE OR REPLACE USER mysql@localhost IDENTIFIED VIA unix_socket;
GRANT SUPER, READ_ONLY ADMIN ON *.* TO mysql@localhost;
GRANT SELECT, UPDATE ON tier.* TO mysql@localhost;
END
python3 "$role/records.py" --dictionary /usr/share/dictd/gcide.dict.dz --format mysql entry:2000:1000 | sql records
records=$(sql -e 'SELECT COUNT(*) FROM records.usertable')
[ "$records" = 2000 ] || { echo "expected 2000 records, got $records" >&2; exit 1; }
sql -e SHUTDOWN
wait "$server"
# A component of its own writes a position into the data. All machines begin at it, so a new tier copies nothing.
port=$((20000 + RANDOM % 10000))
serve --wsrep-new-cluster --wsrep-cluster-address=gcomm:// --wsrep-node-address=127.0.0.1 \
  --wsrep-provider-options="gmcast.listen_addr=tcp://127.0.0.1:$port"
until [ "$(sql -e "SHOW STATUS LIKE 'wsrep_ready'")" = $'wsrep_ready\tON' ]; do sleep 0.2; done
sql -e SHUTDOWN
wait "$server"
rm -f "$data"/{galera.cache,gvwstate.dat}
sed -i 's/^safe_to_bootstrap: .*/safe_to_bootstrap: 0/' "$data/grastate.dat"
if grep -qE '^seqno: *-' "$data/grastate.dat"; then cat "$data/grastate.dat" >&2; exit 1; fi
rm -r "$work"

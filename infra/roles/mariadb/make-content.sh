#!/usr/bin/env bash
# Makes the data directory: a MediaWiki database with pages from the dict-gcide dictionary, filled by
# MediaWiki's own maintenance scripts. Runs once, in an image build or at the first boot of an instance.
set -euo pipefail
role=/opt/sparecraft/role
data=/opt/sparecraft/data
work=$(mktemp -d)
socket=$work/mariadb.sock
wiki=/usr/share/mediawiki/maintenance
export DEBIAN_FRONTEND=noninteractive
export MW_CONFIG_FILE=$work/LocalSettings.php

sql() { mariadb --socket="$socket" --user=root --batch --skip-column-names "$@"; }

start_server() { # Not durable: if this fails, the build starts anew.
  mariadb-install-db --defaults-file="$role/my.cnf" --innodb-read-only=OFF --skip-test-db \
    --auth-root-authentication-method=socket >/dev/null
  install -d -m 755 -o mysql -g mysql /run/mysqld
  chmod 755 "$work"
  mariadbd --defaults-file="$role/my.cnf" --innodb-read-only=OFF --skip-networking --socket=/run/mysqld/build.sock \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF --innodb-fast-shutdown=0 \
    --innodb-buffer-pool-dump-at-shutdown=ON 2>"$work/mariadbd.log" &
  server=$!
  socket=/run/mysqld/build.sock
  until sql -e 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { tail "$work/mariadbd.log" >&2; exit 1; }
    sleep 0.2
  done
}

apt-get update -qq
apt-get install -y -qq --no-install-recommends \
  dict-gcide mediawiki php-cli php-intl php-mbstring php-mysql php-xml python3 >/dev/null
start_server
python3 "$role/content/build_wiki.py" --index /usr/share/dictd/gcide.index \
  --dictionary /usr/share/dictd/gcide.dict.dz --dump "$work/wiki.xml" --titles "$work/titles.txt"

php "$wiki/install.php" --dbtype mysql --dbserver "localhost:$socket" --dbname wiki --dbuser root --dbpass '' \
  --server http://localhost --scriptpath '' --confpath "$work" --pass "$(head -c 18 /dev/urandom | base64)" \
  Words Admin >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
cat >>"$MW_CONFIG_FILE" <<END
wfLoadExtension( 'ParserFunctions' );
\$wgMainCacheType = 'hash';
\$wgMessageCacheType = 'hash';
\$wgParserCacheType = CACHE_NONE;
\$wgLocalisationCacheConf['store'] = 'array';
\$wgCacheDirectory = '$work';
\$wgUseDatabaseMessages = false;
\$wgJobRunRate = 0;
END
php "$wiki/importDump.php" --no-updates --username-prefix=gcide "$work/wiki.xml" >"$work/import.log" 2>&1 ||
  { cat "$work/import.log" >&2; exit 1; }
# Links, templates and categories of every page, then the counts that depend on them.
php "$wiki/refreshLinks.php" >"$work/links.log" || { tail "$work/links.log" >&2; exit 1; }
php "$wiki/rebuildrecentchanges.php" >/dev/null
php "$wiki/initSiteStats.php" --update >/dev/null

expected=$(wc -l <"$work/titles.txt")
pages=$(sql wiki -e "SELECT COUNT(*) FROM page WHERE page_namespace = 0 AND page_title <> 'Main_Page'")
[ "$pages" = "$expected" ] || { echo "expected $expected pages in the wiki, got $pages" >&2; exit 1; }
sql <<'END'
DELETE FROM wiki.job;
CREATE USER wiki@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('wiki-read');
GRANT SELECT ON wiki.* TO wiki@'%';
END
# A pool that was read from end to end is what a replica loads when it starts.
mariadb-check --socket="$socket" --user=root --silent --databases wiki
sql -e SHUTDOWN
wait "$server"
rm -rf "$work"
echo "$pages pages, $(du -sh "$data" | cut -f1) of data"

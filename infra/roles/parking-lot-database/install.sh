#!/usr/bin/env bash
# Installs MariaDB's server and client, and makes an empty data directory.
set -euo pipefail
role=/opt/sparecraft/role
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd mysql >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin mysql
install -d -m 755 -o mysql -g mysql /opt/sparecraft/data
mariadb-install-db --defaults-file="$role/my.cnf" --skip-test-db --auth-root-authentication-method=socket >/dev/null

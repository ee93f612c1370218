#!/usr/bin/env bash
# Installs MariaDB's server and client, and makes the data directory with the lots' account.
set -euo pipefail
role=/opt/sparecraft/role
export DEBIAN_FRONTEND=noninteractive
# The agent starts servers, packages do not.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

apt-get update -qq
apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd mysql >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin mysql
install -d -m 755 -o mysql -g mysql /opt/sparecraft/data
mariadb-install-db --defaults-file="$role/my.cnf" --skip-test-db --auth-root-authentication-method=socket >/dev/null
# The account comes by the server itself, before it serves anybody.
mariadbd --defaults-file="$role/my.cnf" --bootstrap <<'END'
CREATE DATABASE lots;
INSERT INTO mysql.global_priv VALUES ('%', 'lots', JSON_OBJECT('access', 0, 'plugin', 'mysql_native_password',
  'authentication_string', PASSWORD('lots')));
INSERT INTO mysql.db (Host, Db, User, Select_priv, Insert_priv, Update_priv, Delete_priv, Create_priv)
  VALUES ('%', 'lots', 'lots', 'Y', 'Y', 'Y', 'Y', 'Y');
END

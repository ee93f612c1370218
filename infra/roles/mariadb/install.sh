#!/usr/bin/env bash
# Installs MariaDB's server and client, without the package that would start a service.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd mysql >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin mysql
install -d -m 755 -o mysql -g mysql /opt/sparecraft/data

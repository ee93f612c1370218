#!/usr/bin/env bash
# Installs MariaDB's server and client, Galera, and the scripts that copy a server's data, without the package that
# would start a service.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends galera-4 lsof mariadb-client-core mariadb-server-core rsync socat >/dev/null
work=$(mktemp -d)
(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root mariadb-server >/dev/null && dpkg-deb --extract mariadb-server_*.deb files)
install -m 755 "$work"/files/usr/bin/wsrep_sst_{common,rsync} /usr/bin/
rm -r "$work"
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd mysql >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin mysql
install -d -m 755 -o mysql -g mysql /opt/sparecraft/data

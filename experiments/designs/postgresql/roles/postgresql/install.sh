#!/usr/bin/env bash
# Installs the distribution's PostgreSQL (Debian 12: 15), without a cluster of its own and without starting anything.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
apt-get install -y -qq --no-install-recommends postgresql >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -d -m 700 -o postgres -g postgres /opt/sparecraft/data

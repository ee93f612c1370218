#!/usr/bin/env bash
# Installs memcached, without starting it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends memcached >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -d -m 755 /opt/sparecraft/data

#!/usr/bin/env bash
# Installs Java for a role whose jars come with its folder, and the user `store`, whom the data belongs to.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless curl >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd store >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin store
install -d -m 755 -o store -g store /opt/sparecraft/data

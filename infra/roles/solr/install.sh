#!/usr/bin/env bash
# Installs Java; Solr's jars come with the folder (lib/).
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless curl >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd solr >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin solr
install -d -m 755 -o solr -g solr /opt/sparecraft/data

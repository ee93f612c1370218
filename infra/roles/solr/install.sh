#!/usr/bin/env bash
# Installs Java; Solr's jars come with the folder (lib/).
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Java 17, or what a later distribution has.
java=openjdk-17-jre-headless
apt-get install --simulate "$java" >/dev/null 2>&1 || java=default-jre-headless
mkdir -p /usr/share/man/man1 # Debian 13's links its pages there, also on a system without any
apt-get install -y -qq --no-install-recommends "$java" curl >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
getent passwd solr >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin solr
install -d -m 755 -o solr -g solr /opt/sparecraft/data

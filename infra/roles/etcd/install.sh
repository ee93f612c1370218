#!/usr/bin/env bash
# Installs etcd and its command line, without starting it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends etcd-server etcd-client >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -d -m 700 -o etcd -g etcd /opt/sparecraft/data

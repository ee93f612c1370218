#!/usr/bin/env bash
# Installs Redis Sentinel, without starting it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends redis-sentinel redis-tools >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -d -m 755 -o redis -g redis /opt/sparecraft/data

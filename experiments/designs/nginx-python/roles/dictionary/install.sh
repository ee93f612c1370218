#!/usr/bin/env bash
# Installs what the service needs: Debian's Python, which has SQLite with full-text search.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3 >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

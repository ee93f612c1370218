#!/usr/bin/env bash
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends curl python3 >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

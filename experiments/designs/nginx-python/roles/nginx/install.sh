#!/usr/bin/env bash
# Installs nginx, without starting it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends nginx-light >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

#!/usr/bin/env bash
# Installs packages and configuration; starts nothing. The image's build runs it, and on EC2 the machine.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends iso-codes python3 >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

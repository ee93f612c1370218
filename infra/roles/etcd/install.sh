#!/usr/bin/env bash
# Installs etcd and its command line, without starting it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
# The agent starts servers, packages do not.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

apt-get update -qq
apt-get install -y -qq --no-install-recommends etcd-server etcd-client >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -d -m 700 -o etcd -g etcd /opt/sparecraft/data

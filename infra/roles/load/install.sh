#!/usr/bin/env bash
# Installs this project's Python packages for the user who makes load: Locust's master or a worker.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
source=/opt/sparecraft/bundle/source
venv=/opt/sparecraft/venv
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --require-hashes -r "$source/requirements.lock"
"$venv/bin/pip" install --quiet --no-deps -e "$source"
ln -sf "$venv/bin/sparecraft" /usr/local/bin/sparecraft
getent passwd load >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin load

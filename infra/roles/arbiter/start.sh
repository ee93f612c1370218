#!/usr/bin/env bash
# Runs the arbiter in the foreground, as a user who may listen on a web server's port and nothing else.
set -euo pipefail
# The machine's key is root's; the arbiter reads one of its own.
key=/etc/sparecraft/tls/key.pem
if [ -e "$key" ]; then
  install -d -m 750 -g arbiter /run/sparecraft/arbiter
  install -m 440 -g arbiter "$key" /run/sparecraft/arbiter/key.pem
fi
exec setpriv --reuid arbiter --regid arbiter --clear-groups \
  --inh-caps -all,+net_bind_service --ambient-caps +net_bind_service \
  /opt/sparecraft/bin/arbiter --config /etc/sparecraft/arbiter.toml

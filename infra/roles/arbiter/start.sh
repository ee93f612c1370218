#!/usr/bin/env bash
# Runs the arbiter in the foreground, as a user who may listen on a web server's port and nothing else.
set -euo pipefail
exec setpriv --reuid arbiter --regid arbiter --clear-groups \
  --inh-caps -all,+net_bind_service --ambient-caps +net_bind_service \
  /opt/sparecraft/bin/arbiter --config /etc/sparecraft/arbiter.toml

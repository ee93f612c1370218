#!/usr/bin/env bash
# Runs the arbiter in the foreground.
set -euo pipefail
exec /opt/sparecraft/bin/arbiter --config /etc/sparecraft/arbiter.toml

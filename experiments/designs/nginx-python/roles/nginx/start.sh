#!/usr/bin/env bash
# Runs nginx in the foreground.
set -euo pipefail
exec /usr/sbin/nginx -c /etc/sparecraft/nginx.conf

#!/usr/bin/env bash
# Runs the service in the foreground, as a user who may write nothing.
set -euo pipefail
exec setpriv --reuid nobody --regid nogroup --clear-groups python3 /opt/sparecraft/role/service.py

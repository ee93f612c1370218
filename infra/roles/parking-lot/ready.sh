#!/usr/bin/env bash
# Exit 0: the server listens, which it does once it has its database.
set -euo pipefail
exec timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.1/7000'

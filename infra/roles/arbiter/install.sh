#!/usr/bin/env bash
# Makes the user and the folders of an arbiter machine; the program is static and needs no package.
set -euo pipefail
install -d -m 755 /etc/sparecraft /opt/sparecraft/bin
getent passwd arbiter >/dev/null ||
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin arbiter

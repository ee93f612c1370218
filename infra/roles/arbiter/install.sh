#!/usr/bin/env bash
# Makes the folders of an arbiter machine; the program is static and needs no package.
set -euo pipefail
install -d -m 755 /etc/sparecraft /opt/sparecraft/bin

#!/usr/bin/env bash
# Makes the folders of a machine of the lots; the program is static and needs no package.
set -euo pipefail
install -d -m 755 /etc/sparecraft /opt/sparecraft/bin

#!/usr/bin/env bash
# Makes the pages, from the text of the dict-gcide dictionary.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null
python3 /opt/sparecraft/role/pages.py --dictionary /usr/share/dictd/gcide.dict.dz --folder /opt/sparecraft/data

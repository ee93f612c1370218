#!/usr/bin/env bash
# Makes the service's database of the text of Debian's dict-gcide.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide >/dev/null
install -d -m 755 /opt/sparecraft/data
cd /opt/sparecraft/role
python3 load_entries.py /usr/share/dictd/gcide words.txt /opt/sparecraft/data/dictionary.db

#!/usr/bin/env bash
# Makes the commands that fill the cache, from the text of the dict-gcide dictionary.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends dict-gcide python3 >/dev/null
python3 /opt/sparecraft/role/records.py --dictionary /usr/share/dictd/gcide.dict.dz --format memcached \
  entry:20000:1000 fragment:1000:16000 page:400:64000 >/opt/sparecraft/data/commands

#!/usr/bin/env bash
# Runs an etcd server in the foreground, a member of the cluster that PEERS lists.
set -euo pipefail
# shellcheck source=/dev/null
for file in /etc/sparecraft/role.env /etc/sparecraft/settings.env; do
  if [ -e "$file" ]; then source "$file"; fi
done
cluster=$(sed -E 's|=([^,]+)|=http://\1:2380|g' <<<"$PEERS")
exec setpriv --reuid=etcd --regid=etcd --clear-groups /usr/bin/etcd --name "$NAME" --data-dir /opt/sparecraft/data \
  --initial-cluster "$cluster" --initial-advertise-peer-urls "http://$ADDRESS:2380" --listen-peer-urls "http://$ADDRESS:2380" \
  --advertise-client-urls "http://$ADDRESS:2379" --listen-client-urls http://0.0.0.0:2379 \
  --heartbeat-interval $((ELECTION_MS / 10)) --election-timeout "$ELECTION_MS" --logger zap --log-outputs stderr

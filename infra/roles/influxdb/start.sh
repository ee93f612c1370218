#!/usr/bin/env bash
# Runs InfluxDB in the foreground. After a SIGKILL it replays its write-ahead log.
set -euo pipefail
exec setpriv --reuid influxdb --regid influxdb --clear-groups /usr/bin/influxd -config /etc/influxdb/sparecraft.conf

#!/usr/bin/env bash
# Makes a Debian 12 instance a machine of a fleet: the user data of infra/stacks/ec2, after lines that set
# SC_MACHINE, SC_REGION, SC_BUCKET, SC_EXPIRES (RFC 3339) and SC_TTL_HOURS. cloud-init runs it at the first boot; it
# then keeps itself as a service for each boot, so that what a stop has cut off goes on.
set -euo pipefail
own=/usr/local/sbin/sparecraft-boot
units=/etc/systemd/system
bundle=/opt/sparecraft/bundle
# Those of every role's image (ci/base-image), and what fetches the bundle.
packages=(ca-certificates iperf3 iproute2 nftables procps python3-boto3)
tries=10

systemd_runs() { [ -d /run/systemd/system ]; }

expired() { [ "$(date -u +%s)" -ge "$(date -u -d "$SC_EXPIRES" +%s)" ]; }

# A shutdown terminates the instance: the stack says so.
write_units() {
  cat >"$units/sparecraft-end.service" <<END
[Unit]
Description=The time to live of Sparecraft's fleet is over
[Service]
Type=oneshot
ExecStart=/usr/sbin/poweroff
END
  cat >"$units/sparecraft-end.timer" <<END
[Timer]
OnCalendar=$(date -u -d "$SC_EXPIRES" '+%F %T UTC')
OnBootSec=$(awk -v hours="$SC_TTL_HOURS" 'BEGIN { printf "%d", hours * 3600 }')s
AccuracySec=1s
[Install]
WantedBy=timers.target
END
  cat >"$units/sparecraft-boot.service" <<END
[Unit]
Description=Sparecraft: interfaces, files and role of this machine
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart=$own every-boot
Restart=on-failure
RestartSec=10
StandardOutput=journal+console
StandardError=journal+console
[Install]
WantedBy=multi-user.target
END
}

session_manager() { # A way in for people; without it the machine works as well.
  local deb=/var/tmp/amazon-ssm-agent.deb
  systemctl --quiet is-enabled amazon-ssm-agent 2>/dev/null && return
  python3 - "https://s3.$SC_REGION.amazonaws.com/amazon-ssm-$SC_REGION/latest/debian_amd64/amazon-ssm-agent.deb" "$deb" <<'END' &&
import sys, urllib.request
urllib.request.urlretrieve(sys.argv[1], sys.argv[2])
END
    dpkg -i "$deb" >/dev/null || echo "sparecraft: no Session Manager on $SC_MACHINE"
}

again() { # command...: until it succeeds, a few times
  local try
  for try in $(seq "$tries"); do
    "$@" && return
    echo "sparecraft: try $try of $tries failed: $*"
    sleep 3
  done
  return 1
}

install_packages() {
  dpkg --configure -a
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

fetch_bundle() { # AWS_ENDPOINT_URL: newer boto3 knows it by itself, Debian 12's does not
  python3 - "$SC_REGION" "$SC_BUCKET" sparecraft.tar.gz /var/tmp/sparecraft.tar.gz <<'END'
import os, sys, boto3
region, bucket, key, file = sys.argv[1:]
boto3.client("s3", region, endpoint_url=os.environ.get("AWS_ENDPOINT_URL")).download_file(bucket, key, file)
END
}

prepare() {
  [ ! -e "$bundle/.whole" ] || return 0
  again install_packages
  again fetch_bundle
  rm -rf "$bundle"
  install -d "$bundle"
  tar -xzf /var/tmp/sparecraft.tar.gz -C "$bundle"
  rm /var/tmp/sparecraft.tar.gz
  touch "$bundle/.whole"
}

if [ "${1:-}" != every-boot ]; then
  install -m 700 "$0" "$own"
  write_units
  if systemd_runs; then
    systemctl daemon-reload
    systemctl mask --quiet --now apt-daily.timer apt-daily-upgrade.timer # they hold apt's lock, and are noise
    systemctl enable --quiet --now sparecraft-end.timer
    systemctl enable --quiet sparecraft-boot.service
    systemctl start --no-block sparecraft-boot.service
  fi
  exit 0
fi
if expired; then
  echo "sparecraft: the time to live of $SC_MACHINE was over at $SC_EXPIRES"
  exec /usr/sbin/poweroff
fi
prepare
if systemd_runs; then session_manager; fi
python3 "$bundle/boot/machine.py" --region "$SC_REGION" --bucket "$SC_BUCKET" --machine "$SC_MACHINE"
echo "sparecraft: $SC_MACHINE is made"

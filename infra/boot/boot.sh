#!/usr/bin/env bash
# Makes a Debian 12 instance a machine of a fleet: the user data of infra/stacks/ec2, after lines that set
# SC_MACHINE, SC_REGION, SC_FILES (bucket and prefix), SC_SETTINGS and SC_BUNDLE (SHA-256 of each) and SC_STANDBY (true or
# false). cloud-init runs it at the first boot; it then keeps itself as a service for each boot, so that what a stop has cut off goes on. The fleet's end is the bucket's object
# `expires`, read every five minutes: it can be put off without making a machine anew.
set -euo pipefail
own=/usr/local/sbin/sparecraft-boot
units=/etc/systemd/system
bundle=/opt/sparecraft/bundle
archive=/var/tmp/sparecraft.tar.gz
state=/var/lib/sparecraft
longest_s=$((168 * 3600)) # no fleet is meant to live longer than a week, whatever the bucket says
# Those of every role's image (ci/base-image), and what fetches the bundle.
packages=(ca-certificates iperf3 iproute2 nftables procps python3-boto3)
tries=10

systemd_runs() { [ -d /run/systemd/system ]; }

fetch() { # key, file. AWS_ENDPOINT_URL: newer boto3 knows it by itself, Debian 12's does not
  python3 - "$SC_REGION" "${SC_FILES%%/*}" "${SC_FILES#*/}/$1" "$2" <<'END'
import os, sys, boto3
region, bucket, key, file = sys.argv[1:]
boto3.client("s3", region, endpoint_url=os.environ.get("AWS_ENDPOINT_URL")).download_file(bucket, key, file)
END
}

# By what the bucket says, or said last.
expired() {
  local uptime_s end
  mkdir -p "$state"
  fetch expires "$state/expires.new" 2>/dev/null && mv "$state/expires.new" "$state/expires"
  uptime_s=$(cut -d. -f1 /proc/uptime)
  [ "$uptime_s" -lt "$longest_s" ] || return 0
  [ -s "$state/expires" ] || return 1
  end=$(date -u -d "$(cat "$state/expires")" +%s)
  [ "$(date -u +%s)" -ge "$end" ]
}

end_if_expired() {
  expired || return 0
  echo "sparecraft: the time to live of $SC_MACHINE is over"
  exec /usr/sbin/poweroff
}

# A shutdown terminates the instance: the stack says so. Of a standby it does not, and AWS's scheduler ends that.
write_units() {
  cat >"$units/sparecraft-end.service" <<END
[Unit]
Description=Sparecraft: ends this machine when its fleet's time to live is over
[Service]
Type=oneshot
ExecStart=$own end-if-expired
END
  cat >"$units/sparecraft-end.timer" <<END
[Timer]
OnBootSec=300s
OnUnitActiveSec=300s
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

session_manager() { # A way in for people, on machines that have the key; without it the machine works as well.
  [ -e /etc/sparecraft/session-manager.asc ] || return 0
  systemctl --quiet is-enabled amazon-ssm-agent 2>/dev/null && return
  python3 "$bundle/boot/session_manager.py" --key /etc/sparecraft/session-manager.asc \
    --url "https://s3.$SC_REGION.amazonaws.com/amazon-ssm-$SC_REGION/latest/debian_amd64/amazon-ssm-agent.deb" ||
    echo "sparecraft: no Session Manager on $SC_MACHINE"
}

# Once: what makes a standby is done, and it waits, off, for its first start.
stop_standby() {
  [ "$SC_STANDBY" = true ] && [ ! -e "$state/standby-made" ] || return 0
  touch "$state/standby-made"
  if systemd_runs; then cloud-init status --wait >/dev/null 2>&1 || true; fi
  echo "sparecraft: standby $SC_MACHINE stops itself"
  /usr/sbin/poweroff
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

fetch_bundle() { # What is unpacked runs as root: it is the one that the fleet was planned with, or nothing.
  fetch sparecraft.tar.gz "$archive"
  echo "$SC_BUNDLE  $archive" | sha256sum --check --status ||
    { echo "sparecraft: sparecraft.tar.gz is not the bundle of SHA-256 $SC_BUNDLE" && return 1; }
}

prepare() {
  [ ! -e "$bundle/.whole" ] || return 0
  again install_packages
  again fetch_bundle
  rm -rf "$bundle"
  install -d "$bundle"
  tar -xzf "$archive" -C "$bundle"
  rm "$archive"
  touch "$bundle/.whole"
}

case "${1:-}" in
every-boot) ;;
end-if-expired)
  end_if_expired
  exit 0
  ;;
*)
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
  ;;
esac
end_if_expired
prepare
end_if_expired # the first boot could not ask before
python3 "$bundle/boot/machine.py" --region "$SC_REGION" --files "$SC_FILES" --settings "$SC_SETTINGS"
if systemd_runs; then session_manager; fi
echo "sparecraft: $SC_MACHINE is made"
stop_standby

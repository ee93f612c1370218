# shellcheck shell=bash
# Shared by the scripts in ci/: where the project lies, its tools' paths, and how to speak.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/.venv/bin:$root/build/tools/bin:$PATH"
export CHECKPOINT_DISABLE=1
# A configuration file that is named but absent makes Terraform warn at every call.
if [ -n "${TF_CLI_CONFIG_FILE:-}" ] && [ ! -e "$TF_CLI_CONFIG_FILE" ]; then unset TF_CLI_CONFIG_FILE; fi

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
fail() { # exit code, message
  printf 'sparecraft set-up: %s\n' "$2" >&2
  exit "$1"
}
have() { command -v "$1" >/dev/null 2>&1; }

# Set-up, with the engine that it starts stopped at the end; one that was already running is left alone.
set_up_for_now() {
  docker info >/dev/null 2>&1 || trap 'ci/engine stop' EXIT
  ci/setup
}

# Debian packages, without starting the services that some of them bring. The policy that forbids it is gone when this
# ends, however it ends; one of somebody else's is left alone, one of ours that a kill left behind is not.
policy_rc_d=/usr/sbin/policy-rc.d
install_quietly() ( # packages
  ours='# sparecraft: packages start nothing while they are installed'
  if [ ! -e "$policy_rc_d" ] || grep -qxF "$ours" "$policy_rc_d"; then
    trap 'rm -f "$policy_rc_d"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy_rc_d"
    chmod 755 "$policy_rc_d"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
)

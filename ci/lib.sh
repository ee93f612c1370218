# shellcheck shell=bash
# Shared by the scripts in ci/: paths of the project and its tools; functions for messages, caches and waits.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# Cache of builds by content, for all clones of this user.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sparecraft
export PATH="$root/.venv/bin:$cache/tools/bin:$PATH"
# One for each clone: cargo compares times, so two clones with one target would get each other's programs.
CARGO_TARGET_DIR=$cache/target/$(sha256sum <<<"$root" | cut -c1-12)
export CARGO_TARGET_DIR CARGO_INCREMENTAL=0
export GOFLAGS=-trimpath CGO_ENABLED=0 # as the provider is built, so that its packages are compiled once
export CHECKPOINT_DISABLE=1
unset PYTHONDONTWRITEBYTECODE # else each process of a test compiles anew all that it imports
# A configuration file that is named but absent makes Terraform warn at every call.
if [ -n "${TF_CLI_CONFIG_FILE:-}" ] && [ ! -e "$TF_CLI_CONFIG_FILE" ]; then unset TF_CLI_CONFIG_FILE; fi

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
fail() { # exit code, message
  printf 'sparecraft set-up: %s\n' "$2" >&2
  exit "$1"
}
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command and says how long it took.
step() { # name, command...
  local started=$SECONDS
  say "$1"
  "${@:2}"
  say "$1: $((SECONDS - started)) s"
}

# Cargo's tests, whose compiler is clippy's: what was looked through is not compiled again to be run.
linted_tests() { # arguments of cargo test
  RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ \
    cargo test --quiet --locked --manifest-path agents/Cargo.toml --workspace --exclude fuzz "$@"
}

# Tests in the folders of a kind, such as unit, or 'unit|real', in all rooms or in $wings; modules in other folders are not
# imported.
tests_in() { # kind, arguments of pytest
  local folders among
  read -ra among <<<"${wings:-core experiments optimizer grafana infra}"
  mapfile -t folders < <(find "${among[@]}" -regextype posix-extended -type d -regex ".*/tests/($1)" | sort)
  # Where a test ends its worker again and again, xdist with loadfile would wait for ever.
  python -m pytest -q --max-worker-restart=0 "${@:2}" "${folders[@]}"
}

# Runs jobs side by side, for at most an hour or $job_minutes. The first one's output is seen; what the others say comes
# after it, and last what failed.
at_once() { # functions
  local logs job clock ended code began=$SECONDS failed=() passed=()
  declare -A running=() # names of jobs, by process id
  logs=$(mktemp -d)
  set -m # process groups of their own, so that all of them can be ended
  for job in "${@:2}"; do
    (set -e; "$job") >"$logs/$job" 2>&1 </dev/null &
    running[$!]=$job
  done
  (set -e; "$1") > >(trap '' INT; exec tee "$logs/$1") 2>&1 </dev/null &
  running[$!]=$1
  sleep "$((${job_minutes:-60} * 60))" >/dev/null 2>&1 &
  clock=$!
  set +m
  # TERM as well, for those that were started with INT ignored.
  trap 'end_jobs; rm -rf "$logs"; exit 130' HUP INT
  trap 'show_jobs; end_jobs; rm -rf "$logs"; exit 143' TERM
  while [ ${#running[@]} -gt 0 ]; do
    code=0
    wait -n -p ended "$clock" "${!running[@]}" || code=$?
    if [ "$ended" = "$clock" ]; then
      show_jobs
      failed+=("${running[@]}")
      end_jobs
      break
    fi
    if [ "$code" = 0 ]; then passed+=("${running[$ended]}"); else failed+=("${running[$ended]}"); fi
    unset "running[$ended]"
  done
  kill "$clock" 2>/dev/null || true
  trap - HUP INT TERM
  for job in "${passed[@]}" "${failed[@]}"; do
    [ "$job" = "$1" ] || cat "$logs/$job"
  done
  for job in "${failed[@]}"; do
    say "FAILED: $job, which ended so:"
    tail -n 40 "$logs/$job"
  done
  rm -rf "$logs"
  [ ${#failed[@]} -eq 0 ]
}

# Of the jobs of at_once that still run: how far each came, and its processes.
show_jobs() {
  local pid
  for pid in "${!running[@]}"; do
    say "NOT ENDED after $((SECONDS - began)) s: ${running[$pid]}, which came so far, and its processes:"
    tail -n 40 "$logs/${running[$pid]}"
    ps -eo pgid,pid,ppid,etimes,stat,wchan:20,args | awk -v "group=$pid" 'NR == 1 || $1 == group' | cut -c1-200 || true
  done
}

end_jobs() {
  local groups=("${!running[@]}")
  kill -INT -- "${groups[@]/#/-}" 2>/dev/null || true
  kill "$clock" 2>/dev/null || true
  sleep 5
  kill -TERM -- "${groups[@]/#/-}" 2>/dev/null || true
  sleep 5
  kill -KILL -- "${groups[@]/#/-}" 2>/dev/null || true
  wait
}

# A hash of files' names and contents, and of words. Files that are built or hidden do not count, nor do those of
# tests and examples.
content_of() { # words, --, files and folders
  local words=()
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  {
    printf '%s\n' "${words[@]}"
    find "$@" \( -name target -o -name __pycache__ -o -name tests -o -name examples -o -name '.*' \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  } | sha256sum | cut -c1-20
}

# Makes a folder by a command, or takes what was made of the same content before. The eight newest are kept.
kept() { # name, hash of the content, folder, command that fills the folder
  local store=$cache/$1/$2 new
  if [ ! -d "$store" ]; then
    "${@:4}"
    mkdir -p "$cache/$1"
    new=$(mktemp -d "$cache/$1/.new.XXXXXX")
    cp -a "$3/." "$new"
    if ! mv -T "$new" "$store" 2>/dev/null; then
      rm -rf "$new"
      [ -d "$store" ] || fail 3 "$store cannot be made" # else another clone was first
    fi
    newest "$cache/$1" 8
  else
    rm -rf "$3"
    mkdir -p "$3"
    cp -a "$store/." "$3"
  fi
  touch -c "$store"
}

# Removes all but the newest entries of a folder.
newest() { # folder, how many stay
  find "$1" -mindepth 1 -maxdepth 1 -printf '%T@ %p\0' | sort -zrn | tail -zn "+$(($2 + 1))" | cut -zd' ' -f2- | xargs -0r rm -rf --
}

# Begins a clone's cargo target with another clone's, for the dependencies in it; our own crates are compiled anew.
cargo_target() {
  local other
  [ ! -d "$CARGO_TARGET_DIR" ] || { touch -c "$CARGO_TARGET_DIR"; return; }
  mkdir -p "$cache/target"
  other=$(find "$cache/target" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | head -n 1 | cut -d' ' -f2-)
  if [ -n "$other" ]; then
    cp -a --reflink=auto "$other" "$CARGO_TARGET_DIR"
    find agents -name target -prune -o -type f -exec touch -c {} +
  fi
  newest "$cache/target" 3
}

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
    printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy_rc_d" || exit
    chmod 755 "$policy_rc_d" || exit
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
)

# Their services are not started by the next boot either: tests start servers themselves. The engine's is.
start_no_server_at_boot() { # packages
  local package units
  have systemctl || return 0
  for package in "$@"; do
    [ "$package" != docker.io ] || continue
    mapfile -t units < <(dpkg-query -L "$package" | sed -nE 's#^(/usr)?/lib/systemd/system/([^/@]+\.(service|socket|timer))$#\2#p')
    [ ${#units[@]} = 0 ] || systemctl disable --quiet "${units[@]}"
  done
}

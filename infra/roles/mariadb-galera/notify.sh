#!/usr/bin/env bash
# Galera calls it at each change of its component, and waits for it: keeps the names of the component's machines, and
# lets primary.sh decide on writes afterwards.
set -euo pipefail
data=/opt/sparecraft/data
run=/run/mysqld
primary='' members=''
while [ $# -gt 0 ]; do
  case $1 in
    --primary) primary=$2 ;;
    --members) members=$2 ;;
  esac
  shift 2
done
if [ -n "$primary" ]; then
  # UUID/NAME/ADDRESS,...
  names=$(tr , '\n' <<<"$members" | cut -d/ -f2 | paste -sd' ')
  if [ "$primary" = yes ]; then
    echo "$names" >"$data/component.new"
    mv "$data/component.new" "$data/component"
  else
    names=
  fi
  echo "$names" >"$run/component.new"
  mv "$run/component.new" "$run/component"
fi
setsid /opt/sparecraft/role/primary.sh </dev/null >&2 &

#!/opt/sparecraft/tools/bin/bash
# Starts what a stock image, or role.json, has a machine run, as the image's user. Before that, as root: tiers that
# it calls get their names (CALLED_NAMES_...: "HOSTS NAME..."), and some are waited for (CALLED_FIRST_...: "HOSTS").
set -euo pipefail
entrypoint=() command=() as_user=() home=/ workdir=/ restart=''
# shellcheck source=/dev/null
source /opt/sparecraft/role/stock/process.sh

pause() { read -rt "$1" <> <(:) || :; } # an image need not have a sleep

for variable in ${!CALLED_NAMES_@}; do
  read -r hosts names <<<"${!variable}"
  for host in ${hosts//,/ }; do
    line="${host%:*} $names"
    if [[ $'\n'$(</etc/hosts)$'\n' != *$'\n'"$line"$'\n'* ]]; then
      printf '%s\n' "$line" >>/etc/hosts
    fi
  done
done

answers() { (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }

for variable in ${!CALLED_FIRST_@}; do
  first=${!variable%%,*}
  until answers "$first"; do
    if ((SECONDS >= 60)); then
      printf 'start: %s did not answer within 60 s\n' "$first" >&2
      exit 1
    fi
    pause 0.2
  done
done

words=("${entrypoint[@]}" "${command[@]}")
if [ ${#words[@]} = 0 ]; then
  echo 'start: the image has neither ENTRYPOINT nor CMD, and role.json no "process"' >&2
  exit 1
fi
cd "$workdir"
export HOME=$home PATH=${PATH#/opt/sparecraft/tools/bin:}
if [ -z "$restart" ]; then
  exec "${as_user[@]}" "${words[@]}"
fi

ended=
trap 'ended=yes' TERM
while [ -z "$ended" ]; do
  "${as_user[@]}" "${words[@]}" &
  service=$!
  while kill -0 "$service" 2>/dev/null; do wait "$service" || :; done
  pause 1
done

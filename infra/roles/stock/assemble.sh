#!/usr/bin/env bash
# In the build of a stock image's machine: makes /made, which is laid over the image, of the role's folder and the arguments.
set -euo pipefail
cd /opt/sparecraft/role
mv bin ..
if [ -d root ]; then
  mv root /made
  if [ -d /made/tmp ]; then chmod 1777 /made/tmp; fi
fi
mkdir -p /made/opt

read -r uid gid groups </asked/user/ids
read -r home </asked/user/home
as_user=()
if [ "$uid" != 0 ]; then
  listed="$gid${groups:+ $groups}"
  as_user=(/opt/sparecraft/tools/bin/setpriv --reuid "$uid" --regid "$gid" --groups "${listed// /,}"
    --inh-caps '-all,+net_bind_service' --ambient-caps '+net_bind_service')
fi
{
  printf 'entrypoint=(%s)\n' "${STOCK_ENTRYPOINT:-}"
  printf 'command=(%s)\n' "${STOCK_COMMAND:-}"
  printf 'healthcheck=(%s)\n' "${STOCK_HEALTHCHECK:-}"
  printf 'as_user=(%s)\n' "${as_user[*]}"
  printf 'home=%q\nworkdir=%q\nport=%q\nrestart=%q\n' \
    "$home" "${STOCK_WORKDIR:-/}" "${ROLE_PORT:-}" "${ROLE_RESTART:-}"
} >stock/process.sh

for script in start ready; do
  if [ ! -e $script.sh ]; then
    cp stock/$script.sh $script.sh
  elif [ "$uid" != 0 ]; then
    mv $script.sh image-$script.sh
    printf '#!/opt/sparecraft/tools/bin/bash\nexec %s %s\n' \
      "${as_user[*]}" "/opt/sparecraft/role/image-$script.sh" >$script.sh
  fi
  chmod 755 $script.sh
done
mv /opt/sparecraft /made/opt/ # one COPY: Docker 20.10 fails after one that copies nothing (moby issue 37965)

#!/opt/sparecraft/tools/bin/bash
# Exit 0: the HEALTHCHECK of the image, or of role.json, holds; without one, the port answers.
set -euo pipefail
healthcheck=() as_user=() home=/ workdir=/ port=''
# shellcheck source=/dev/null
source /opt/sparecraft/role/stock/process.sh
if [ ${#healthcheck[@]} = 0 ]; then
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  exit 0
fi
cd "$workdir"
export HOME=$home PATH=${PATH#/opt/sparecraft/tools/bin:}
exec "${as_user[@]}" "${healthcheck[@]}"

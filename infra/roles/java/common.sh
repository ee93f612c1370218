# shellcheck shell=bash
# The beginning of the scripts of roles that are Java programs. Such a role has its software in two generations, the folders
# `old` and `new` with their jars in lib/; what an arm calls GENERATION says which runs, each on data of its own.
set -euo pipefail
set -a # what the fleet says of this machine, then what an arm says
# shellcheck source=/dev/null
for file in /etc/sparecraft/role.env /etc/sparecraft/settings.env; do
  if [ -e "$file" ]; then source "$file"; fi
done
set +a
software=/opt/sparecraft/role/$GENERATION
data=/opt/sparecraft/data/$GENERATION
run=/run/sparecraft
export software data run

as_store() { setpriv --reuid=store --regid=store --clear-groups "$@"; }

# The machine's name is its address in the data network, whatever the resolver says: servers tell others what they are called.
write_hosts() {
  mkdir -p "$run"
  {
    echo "127.0.0.1 localhost"
    echo "$ADDRESS $HOSTNAME"
    tr ',' '\n' <<<"$PEERS" | sed -E 's/(.*)=(.*)/\2 \1/'
  } >"$run/hosts"
}

# Metrics of a server's JVM, its heap and some of its beans, at http://ADDRESS:9404/metrics, where the generation's pom.xml
# names the exporter.
jmx_of() { # object names of beans
  local jar rules='[]' names='"java.lang:type=Memory"'
  if [ $# -gt 0 ]; then rules='[{ pattern: ".*" }]' names=$(printf '"%s", ' "$@"); fi
  for jar in "$software"/lib/jmx_prometheus_javaagent-*.jar; do
    if [ ! -e "$jar" ]; then continue; fi
    printf '%s\n' "whitelistObjectNames: [$names]" "rules: $rules" >"$run/jmx.yaml"
    echo "-javaagent:$jar=9404:$run/jmx.yaml"
  done
}

# The same for servers that tell others the first name that an address has: here it is the address, which all can reach.
write_own_name() {
  mkdir -p "$run"
  printf '127.0.0.1 localhost\n%s %s %s\n' "$ADDRESS" "$ADDRESS" "$HOSTNAME" >"$run/hosts"
}

# Waits until one of these takes connections.
await_any() { # host:port,...
  local at
  for _ in {1..300}; do
    for at in ${1//,/ }; do
      if timeout 2 bash -c ": <>/dev/tcp/${at/://}" 2>/dev/null; then return; fi
    done
    sleep 1
  done
  echo "start: expected one of $1 to take connections within 300 s" >&2
  exit 1
}

# The JVM and its options, one a line, without class path and class.
java_of() { # its heap in MB
  printf '%s\n' /usr/bin/java "-Xms$1m" "-Xmx$1m" -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true "-Djdk.net.hosts.file=$run/hosts"
}

#!/usr/bin/env bash
# Compiles the server and makes the index: every entry of GCIDE and WordNet is a document.
set -euo pipefail
role=/opt/sparecraft/role
data=/opt/sparecraft/data
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
java=openjdk-17-jdk-headless
apt-get install --simulate "$java" >/dev/null 2>&1 || java=default-jdk-headless
apt-get install -y -qq --no-install-recommends dict-gcide dict-wn "$java" python3 >/dev/null
install -d "$role/classes"
javac -cp "$role/lib/*" -d "$role/classes" "$role/SolrServer.java"
cp -r "$role/home/." "$data/"

documents=$(mktemp)
python3 "$role/documents.py" gcide=/usr/share/dictd/gcide wordnet=/usr/share/dictd/wn >"$documents"
port=18983
java -Xmx1g -Dsolr.lock.type=native -cp "$role/classes:$role/lib/*" SolrServer "$data" "$port" >/tmp/solr.log 2>&1 &
server=$!
core=http://127.0.0.1:$port/solr/dictionary
for _ in $(seq 300); do
  curl -sf "$core/admin/ping" >/dev/null && break
  kill -0 "$server" || { tail -n 30 /tmp/solr.log >&2; exit 1; }
  sleep 0.2
done
curl -sf -H 'content-type: application/json' --data-binary "@$documents" "$core/update?commit=true" >/dev/null ||
  { tail -n 30 /tmp/solr.log >&2; exit 1; }
# One segment: every machine answers from the same index, made once.
curl -sf "$core/update?optimize=true&maxSegments=1&waitSearcher=true" >/dev/null
count=$(curl -sf "$core/select?q=*:*&rows=0" | sed -n 's/.*"numFound":\([0-9]*\).*/\1/p')
expected=$(wc -l <"$documents")
[ "$count" = "$expected" ] || { echo "expected $expected documents in the index, got $count" >&2; exit 1; }
kill "$server"
wait "$server" || true
rm -rf "$documents" "$data/dictionary/data/tlog"
chown -R solr:solr "$data"
echo "$count documents, $(du -sh "$data" | cut -f1)"

#!/usr/bin/env bash
# Runs Solr in the foreground on the index that came with the image.
set -euo pipefail
role=/opt/sparecraft/role
# A machine has one core at the most. The second compiler would take half of it for minutes, and the first queries would wait
# for what it is busy with; the first one alone, told to begin early, is done when the warming queries are.
exec setpriv --reuid=solr --regid=solr --clear-groups /usr/bin/java -Xms192m -Xmx192m -XX:+UseSerialGC \
  -XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -Dsolr.data.home= -Dlog4j2.level=warn -cp "$role/classes:$role/lib/*" \
  SolrServer /opt/sparecraft/data 8983

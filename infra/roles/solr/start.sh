#!/usr/bin/env bash
# Runs Solr in the foreground on the index that came with the image.
set -euo pipefail
role=/opt/sparecraft/role
# A machine has one core at the most: one thread for the collector and two for the compiler are enough.
exec setpriv --reuid=solr --regid=solr --clear-groups /usr/bin/java -Xms192m -Xmx192m -XX:+UseSerialGC \
  -XX:TieredStopAtLevel=4 -Dsolr.data.home= -Dlog4j2.level=warn -cp "$role/classes:$role/lib/*" \
  SolrServer /opt/sparecraft/data 8983

#!/usr/bin/env bash
# Runs Soak.class in this script's folder, with the jars beside it, and without Lettuce's log: CLIENT PORT.
folder=$(dirname "$0")
exec java -Djava.util.logging.config.file=/dev/null -cp "$folder:$folder/*" Soak "$@"

#!/usr/bin/env bash
# Runs MariaDB in the foreground on the data directory of the image.
set -euo pipefail
install -d -m 755 -o mysql -g mysql /run/mysqld
exec /usr/sbin/mariadbd --defaults-file=/opt/sparecraft/role/my.cnf

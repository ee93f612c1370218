#!/usr/bin/env bash
# Runs MariaDB in the foreground on the image's data directory; database and account are there before anybody is let in.
set -euo pipefail
install -d -m 755 -o mysql -g mysql /run/mysqld
exec /usr/sbin/mariadbd --defaults-file=/opt/sparecraft/role/my.cnf --init-file=/opt/sparecraft/role/init.sql

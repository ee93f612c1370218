#!/usr/bin/env bash
# Installs Apache with PHP in its workers.
set -euo pipefail
role=/opt/sparecraft/role
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends apache2 libapache2-mod-php php-curl >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*
install -m 644 "$role/apache.conf" /etc/apache2/sparecraft.conf
install -m 644 "$role/php.ini" "$(echo /etc/php/8.*/apache2)/conf.d/90-sparecraft.ini"

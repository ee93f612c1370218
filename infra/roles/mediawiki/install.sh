#!/usr/bin/env bash
# Installs the web tier: Apache with PHP in its workers, MediaWiki, and its localisation cache as files.
set -euo pipefail
role=/opt/sparecraft/role
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends \
  apache2 libapache2-mod-php php-cli php-apcu php-intl php-mbstring php-mysql php-xml mediawiki \
  >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

# Apache reads our file alone: Debian's sites, modules and limits are not in it.
install -m 644 "$role/apache.conf" /etc/apache2/sparecraft.conf
install -m 644 "$role/LocalSettings.php" /etc/mediawiki/LocalSettings.php
for sapi in apache2 cli; do
  install -m 644 "$role/php.ini" "$(echo /etc/php/8.*/"$sapi")/conf.d/90-sparecraft.ini"
done

install -d -m 755 /var/cache/sparecraft/l10n
php /usr/share/mediawiki/maintenance/rebuildLocalisationCache.php --lang=en --force --no-progress

#!/bin/sh
# After the files are there. A deb says "configure", and the version that was there
# before if any; an rpm how many of the package are installed.
set -e

if ! getent passwd collector >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/collector --shell /usr/sbin/nologin collector
fi
# The configuration may hold secrets.
chown root:collector /etc/collector /etc/collector/collector.yaml
chmod 0750 /etc/collector
chmod 0640 /etc/collector/collector.yaml
# Data of an earlier installation belongs to root since that was removed.
install -d -m 0700 /var/lib/collector
if [ "$(stat -c %U /var/lib/collector)" != collector ]; then
	chown -R collector:collector /var/lib/collector
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart collector.service
fi

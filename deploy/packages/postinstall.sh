#!/bin/sh
# Runs after the files are installed. Arguments for a deb: "configure" and the previous version, if
# any; for an rpm: the number of installed versions.
set -e

if ! getent passwd collector >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/collector --shell /usr/sbin/nologin collector
fi
# The configuration can contain secrets.
chown root:collector /etc/collector /etc/collector/collector.yaml
chmod 0750 /etc/collector
chmod 0640 /etc/collector/collector.yaml
# After a purge, the data of a previous installation belongs to root.
install -d -m 0700 /var/lib/collector
if [ "$(stat -c %U /var/lib/collector)" != collector ]; then
	chown -R collector:collector /var/lib/collector
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart collector.service
fi

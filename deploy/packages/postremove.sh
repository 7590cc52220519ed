#!/bin/sh
# Runs after the files are removed. Argument for a deb: "remove", or "purge" if the configuration is
# removed too; for an rpm: 0. The data remains for a later installation. When the user is removed, the
# data becomes root's, because another user can get the same UID.
set -e

case "$1" in
purge)
	if [ -d /var/lib/collector ]; then
		chown -R root:root /var/lib/collector
		rmdir --ignore-fail-on-non-empty /var/lib/collector
	fi
	if getent passwd collector >/dev/null; then
		userdel collector
	fi
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

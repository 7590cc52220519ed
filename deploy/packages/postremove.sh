#!/bin/sh
# After the files are gone. A deb says "remove", and "purge" when the configuration goes
# too; an rpm 0. The data stays, for whoever installs it again; it becomes root's when
# the user goes, since another user may be given its number.
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

#!/bin/sh
# Before the files go. A deb says "remove", an rpm 0; what else they say is of upgrades.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now collector.service
	fi
	;;
esac

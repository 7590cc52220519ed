#!/bin/sh
# Runs before the files are removed. Argument for a deb: "remove"; for an rpm: 0. Other arguments
# mean an upgrade.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now collector.service
	fi
	;;
esac

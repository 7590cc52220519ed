#!/bin/sh
# A program is run, and what it sends is held against a file. COLLECTOR_URL says where a
# collector runs by collector dev, and COLLECTOR_TOKEN is its admin token, if it has one.
set -eu
cd "$(dirname "$0")"
export COLLECTOR_URL="${COLLECTOR_URL:-http://127.0.0.1:8765}"

curl --fail --silent --show-error --output /dev/null \
	--request POST --header "Authorization: Bearer ${COLLECTOR_TOKEN:-}" "$COLLECTOR_URL/reset"
sh signup.sh user-123 Enterprise
collector expect --file expectations.yaml

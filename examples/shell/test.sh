#!/bin/sh
# Runs a program, and checks its calls against a file of expectations and a baseline. COLLECTOR_URL
# is the URL of a running collector dev, and COLLECTOR_TOKEN its admin token, if it has one.
set -eu
cd "$(dirname "$0")"
export COLLECTOR_URL="${COLLECTOR_URL:-http://127.0.0.1:8765}"

since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
curl --fail --silent --show-error --output /dev/null \
	--request POST --header "Authorization: Bearer ${COLLECTOR_TOKEN:-}" "$COLLECTOR_URL/reset"
sh signup.sh user-123 Enterprise
collector expect --file expectations.yaml
collector baseline check tracking.json --since "$since"

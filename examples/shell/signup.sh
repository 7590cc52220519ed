#!/bin/sh
# The program under test: it records a sign-up.
set -eu
curl --fail --silent --show-error --user web: --header 'Content-Type: application/json' --output /dev/null \
	--data "{\"event\":\"Signed Up\",\"userId\":\"$1\",\"properties\":{\"plan\":\"$2\"}}" "$COLLECTOR_URL/v1/track"

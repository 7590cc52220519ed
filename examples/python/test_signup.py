"""Tests of the calls that the program sends.

COLLECTOR_URL is the URL of a collector that was started with collector dev, and
COLLECTOR_TOKEN its admin token, if it has one. Run with python3 -m unittest.
"""

import json
import os
import unittest
import urllib.error
import urllib.request

from signup import sign_up

COLLECTOR = os.environ.get("COLLECTOR_URL", "http://127.0.0.1:8765")
TOKEN = os.environ.get("COLLECTOR_TOKEN")


def ask(path, body=None):
    """Sends a request to the collector, by POST if there is a body. Returns the status and the JSON."""
    request = urllib.request.Request(COLLECTOR + path, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if TOKEN:
        request.add_header("Authorization", f"Bearer {TOKEN}")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as response:
        with response:
            return response.code, json.load(response)


class SignUpTest(unittest.TestCase):
    def setUp(self):
        status, result = ask("/reset", {})
        self.assertEqual(200, status, result)

    def expect(self, *expectations):
        status, result = ask("/expect", {"within": "10s", "expect": expectations})
        self.assertEqual(200, status, result.get("message"))

    def test_sign_up_is_tracked(self):
        sign_up("user-123", "Enterprise", COLLECTOR)
        self.expect(
            {"type": "track", "event": "Signed Up", "userId": "user-123", "properties": {"plan": "Enterprise"}, "count": 1},
            {"bad": True, "count": 0},
        )

    def test_calls_can_be_listed(self):
        sign_up("user-123", "Free", COLLECTOR)
        _, good = ask("/good?event=Signed+Up")
        self.assertEqual(["Free"], [c["call"]["properties"]["plan"] for c in good["calls"]])


if __name__ == "__main__":
    unittest.main()

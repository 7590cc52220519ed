"""What the program sends, as a collector took it.

COLLECTOR_URL says where one runs by collector dev, and COLLECTOR_TOKEN is its admin
token, if it has one.
"""

import os
import unittest

import requests

from signup import sign_up

COLLECTOR = os.environ.get("COLLECTOR_URL", "http://127.0.0.1:8765")
TOKEN = os.environ.get("COLLECTOR_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


class SignUpTest(unittest.TestCase):
    def setUp(self):
        requests.post(f"{COLLECTOR}/reset", headers=HEADERS, timeout=10).raise_for_status()

    def expect(self, *expectations):
        document = {"within": "10s", "expect": expectations}
        answer = requests.post(f"{COLLECTOR}/expect", headers=HEADERS, json=document, timeout=20)
        self.assertTrue(answer.ok, answer.json()["message"])

    def test_sign_up_is_tracked(self):
        sign_up("user-123", "Enterprise", COLLECTOR)
        self.expect(
            {"type": "track", "event": "Signed Up", "userId": "user-123", "properties": {"plan": "Enterprise"}, "count": 1},
            {"bad": True, "count": 0},
        )

    def test_calls_can_be_listed(self):
        sign_up("user-123", "Free", COLLECTOR)
        good = requests.get(f"{COLLECTOR}/good", params={"event": "Signed Up"}, headers=HEADERS, timeout=10).json()
        self.assertEqual(["Free"], [c["call"]["properties"]["plan"] for c in good["calls"]])


if __name__ == "__main__":
    unittest.main()

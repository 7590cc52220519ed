"""The program under test: it records a sign-up."""

import base64
import json
import urllib.request


def sign_up(user_id, plan, endpoint):
    call = {"event": "Signed Up", "userId": user_id, "properties": {"plan": plan}}
    write_key = base64.b64encode(b"web:").decode()  # the user name of Basic auth
    headers = {"Authorization": f"Basic {write_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{endpoint}/v1/track", json.dumps(call).encode(), headers)
    urllib.request.urlopen(request, timeout=10).close()  # raises if the collector refuses the request

"""A program that is tested: it says that somebody has signed up."""

import requests


def sign_up(user_id, plan, endpoint):
    call = {"event": "Signed Up", "userId": user_id, "properties": {"plan": plan}}
    requests.post(f"{endpoint}/v1/track", auth=("web", ""), json=call, timeout=10).raise_for_status()

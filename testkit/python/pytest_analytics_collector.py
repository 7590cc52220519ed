"""A pytest plugin that tests analytics calls with a real collector.

The fixture collector starts the command collector, or uses the collector at COLLECTOR_URL. Each test sees only its own calls.
"""

import atexit
import json
import os
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

START_TIMEOUT = 30  # seconds


class Collector:
    """A running collector. url is the endpoint for calls, without a slash at the end."""

    def __init__(self, url, token=None, write_key=None):
        self.url = url.rstrip("/")
        self._token = token
        self._filter = {"writeKey": write_key} if write_key else {}

    def with_write_key(self, write_key):
        """Returns a Collector that sees only the calls with this write key."""
        return Collector(self.url, self._token, write_key)

    def reset(self):
        """Hides all earlier calls from the tests."""
        self._request("POST", f"/reset?{self._query()}", {})

    def expect_call(self, expectation, **options):
        """Waits until a call matches. Raises an AssertionError with the differences if none does."""
        __tracebackhide__ = True
        self.expect_calls(expectation, **options)

    def expect_calls(self, *expectations, within="10s", **options):
        """Waits until all expectations are met. Raises an AssertionError with the differences if they are not.

        The options are within and settle, such as "5s", and ordered.
        """
        __tracebackhide__ = True
        body = {"within": within, **self._filter, **options, "expect": expectations}
        report = self._request("POST", "/expect", body, 422)
        if not report["ok"]:
            raise AssertionError(report["message"])

    def calls(self, **filters):
        """Returns the accepted calls that match filters such as event="Signed Up". At most 500 calls."""
        return self._list("/good", filters)

    def rejected_calls(self, **filters):
        """Returns the rejected calls that match filters. At most 500 calls."""
        return self._list("/bad", filters)

    def _list(self, path, filters):
        query = self._query(**{"limit": 500, **filters})
        return self._request("GET", f"{path}?{query}")["calls"]

    def _query(self, **parameters):
        return urllib.parse.urlencode({**self._filter, **parameters})

    def _request(self, method, path, body=None, allowed=200):
        """Returns the JSON of a response with status 200 or the status allowed."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as response:
            with response:
                text = response.read().decode(errors="replace")
            if response.code == allowed:
                return json.loads(text)
            message = f"the collector at {self.url} responded to {method} {path} with {response.code}: {text[:2000]}"
        except urllib.error.URLError as error:
            message = f"the collector at {self.url} does not respond: {error.reason}"
        raise RuntimeError(message)


def _address(process, command):
    """Waits until the process prints its address."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    output = ""
    try:
        for line in process.stdout:
            output = (output + line)[-4000:]
            if found := re.search(r"Send calls to\s+(http:\S+)", line):
                return found[1]
    finally:
        timer.cancel()
    raise RuntimeError(f"{command} did not start: {output}")


@pytest.fixture(scope="session")
def collector_command():
    """The path of the command. To change it, override this fixture, or set COLLECTOR_COMMAND."""
    return os.environ.get("COLLECTOR_COMMAND", "collector")


@pytest.fixture(scope="session")
def collector_server(collector_command):
    """The collector of the session, at COLLECTOR_URL if it is set."""
    if url := os.environ.get("COLLECTOR_URL"):
        yield Collector(url, os.environ.get("COLLECTOR_TOKEN"))
        return
    with tempfile.TemporaryDirectory(prefix="collector-", ignore_cleanup_errors=True) as data:
        args = [collector_command, "dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data]
        try:
            process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            hint = "Install the collector, or set COLLECTOR_COMMAND to its path or COLLECTOR_URL to the URL of a running one"
            raise RuntimeError(f"cannot start {collector_command}: {error}. {hint}") from error
        atexit.register(process.kill)
        try:
            url = _address(process, collector_command)
            threading.Thread(target=process.stdout.read, daemon=True).start()  # otherwise the pipe could fill up
            yield Collector(url)
        finally:
            process.terminate()
            process.wait()
            atexit.unregister(process.kill)


@pytest.fixture
def collector(collector_server):
    """The collector, without the calls of earlier tests."""
    collector_server.reset()
    return collector_server

import json
import urllib.request

import pytest


def sign_up(plan, endpoint, write_key="web", **fields):
    call = {"writeKey": write_key, "userId": "user-123", "event": "Signed Up", "properties": {"plan": plan}, **fields}
    urllib.request.urlopen(f"{endpoint}/v1/track", json.dumps(call).encode()).close()


def test_sign_up_is_tracked(collector):
    sign_up("Enterprise", collector.url)  # your code
    collector.expect_call({"event": "Signed Up", "properties": {"plan": "Enterprise"}, "count": 1})


def test_earlier_calls_are_hidden(collector):
    assert collector.calls() == []


def test_failure_names_the_differences(collector):
    sign_up("Free", collector.url)
    with pytest.raises(AssertionError, match='properties.plan is "Free", want "Enterprise"'):
        collector.expect_call({"event": "Signed Up", "properties": {"plan": "Enterprise"}}, within="100ms")


def test_write_keys_separate_calls(collector):
    sign_up("Free", collector.url, "worker-1")
    sign_up("Free", collector.url, "worker-2")
    one = collector.with_write_key("worker-1")
    assert len(one.calls()) == 1
    one.reset()
    assert len(one.calls()) == 0
    assert len(collector.calls(event="Signed Up")) == 1


def test_rejected_calls_are_listed(collector):
    sign_up("Free", collector.url, event="")
    assert [c["code"] for c in collector.rejected_calls()] == ["event_not_defined"]


def test_invalid_expectation_is_an_error(collector):
    with pytest.raises(RuntimeError, match="400: .*evnt"):
        collector.expect_call({"evnt": "Signed Up"})


@pytest.mark.parametrize(
    "command, message",
    [("/missing/collector", "cannot start /missing/collector.*COLLECTOR_COMMAND"), ("/bin/false", "/bin/false did not start")],
)
def test_missing_program_is_an_error(pytester, monkeypatch, command, message):
    monkeypatch.setenv("COLLECTOR_COMMAND", command)
    pytester.makepyfile("def test(collector): pass")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([f".*{message}"])

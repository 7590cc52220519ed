"""Tests of the calls that the program sends, with the plugin pytest-analytics-collector."""

import pytest
from signup import sign_up


def test_sign_up_is_tracked(collector):
    sign_up("user-123", "Enterprise", collector.url)
    collector.expect_calls(
        {"type": "track", "event": "Signed Up", "userId": "user-123", "properties": {"plan": "Enterprise"}, "count": 1},
        {"bad": True, "count": 0},
    )


def test_calls_can_be_listed(collector):
    sign_up("user-123", "Free", collector.url)
    assert ["Free"] == [c["call"]["properties"]["plan"] for c in collector.calls(event="Signed Up")]


def test_failure_names_the_difference(collector):
    sign_up("user-123", "Free", collector.url)
    with pytest.raises(AssertionError, match='properties.plan is "Free", want "Enterprise"'):
        collector.expect_calls(
            {"event": "Signed Up", "properties": {"plan": "Enterprise"}}, {"event": "Signed Up", "count": 0}
        )

"""What handlers did, in words."""

from typing import get_args

import pytest

from toolbus.bus.ledger.records import HandlerEntry, HandlerStatus, is_notable, sign_of
from toolbus.events import RUN_BEFORE, TOOL_CALL_BEFORE
from toolbus.history.descriptions import (
    describe,
    describe_change,
    describe_idleness,
    utc_time,
)
from toolbus.replay.findings import describe_actors


def entry(name, status, reason=None):
    return HandlerEntry(name=name, priority=100, kind="guard", status=status, reason=reason)


@pytest.mark.parametrize(
    ("status", "event", "text"),
    [
        ("denied", TOOL_CALL_BEFORE, "denied the call c-1"),
        ("asked", TOOL_CALL_BEFORE, "required approval of the call c-1"),
        ("timeout", TOOL_CALL_BEFORE, "timed out at the call c-1"),
        ("denied", RUN_BEFORE, "denied at run:before"),
    ],
)
def test_a_status_becomes_a_sentence(status, event, text):
    assert describe(status, event.name, "c-1") == text


def test_a_change_without_fields_is_sizes_alone():
    assert describe_change(["name", "arguments"], 1_000, 2) == "name, arguments: 1,000 → 2 bytes"
    assert describe_change([], 5, 6) == "5 → 6 bytes"


def test_actors_are_those_that_did_something():
    entries = [
        entry("a", "ran"),
        entry("b", "changed"),
        entry("c", "failed", "raised an error"),
        entry("d", "timeout"),
        entry("e", "not_run"),
    ]

    assert describe_actors(entries) == ("b", "c (raised an error)", "d (timeout)")


def test_who_did_not_run_has_a_reason():
    first, other = entry("first", "denied"), entry("other", "not_run")

    assert describe_idleness(first, []) is None
    assert describe_idleness(other, [first]) == "first had ended the dispatch: denied"
    assert describe_idleness(other, []) == "the dispatch had ended"
    assert describe_idleness(entry("x", "skipped"), [first]).startswith("another sender")


def test_what_is_notable_has_a_sign_of_its_own():
    quiet = {status for status in get_args(HandlerStatus) if not is_notable(status)}

    assert quiet == {"ran", "queued", "skipped", "not_run"}
    assert {sign_of(status).text for status in quiet} == {"·"}
    assert "·" not in {sign_of(status).text for status in set(get_args(HandlerStatus)) - quiet}


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (1_700_000_000_999_999_999, "2023-11-14 22:13:20"),
        (-1, "1970-01-01 00:00:00"),
        (10**30, "9999-12-31 23:59:59"),
        (10**400, "9999-12-31 23:59:59"),
    ],
)
def test_any_number_is_a_time(time_ns, text):
    assert utc_time(time_ns) == text

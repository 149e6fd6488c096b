"""What is remembered of a session has bounds, and what is left out tightens."""

import json

from hypothesis import given
from hypothesis import strategies as st

from toolbus.components.state import MAX_BYTES
from toolbus.policy.history.session_record import (
    LONGEST_MEMORY,
    MOST_COUNTED,
    MOST_ENTRIES,
    MOST_RUNNING,
    MOST_RUNS,
    MOST_SESSIONS,
    MOST_WAITING,
    CallTime,
    SessionRecord,
)


def at(now, run_id="r", call_key="s/c"):
    return CallTime(now, run_id, "s", call_key)


def again(record):
    """Return the record as another process reads it."""
    return SessionRecord(json.loads(json.dumps(record.value)))


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 5)), min_size=1, max_size=40))
def test_a_window_adds_up_what_is_in_it(steps):
    record, entries, now = SessionRecord(None), [], 0.0

    for wait, amount in steps:
        now += wait
        record.add("m", amount, at(now), 20.0, by_run=False)
        entries.append((now, amount))
        record = again(record)

        expected = sum(amount for time, amount in entries if time > now - 20.0)
        assert record.used("m", at(now), 20.0, by_run=False) == expected


def test_entries_that_are_joined_count_for_more():
    record = SessionRecord(None)

    for now in range(MOST_ENTRIES + 100):
        record.add("m", 1, at(float(now), str(now % 2)), 10_000.0, by_run=True)

    entries = record.value["meters"]["m"]["entries"]
    total = MOST_ENTRIES + 100
    assert len(entries) == MOST_ENTRIES
    assert sum(amount for _, amount, _ in entries) == total
    for run_id in "01":
        counted = record.used("m", at(float(total), run_id), 10_000.0, by_run=True)
        assert total / 2 <= counted <= total


def test_all_of_it_has_bounds():
    record = SessionRecord(None)

    for number in range(2 * MOST_RUNNING):
        record.add("runs", 1, at(0.0, f"run-{number}"), None, by_run=True)
        record.remember("rule", f"session-{number}", f"{number:024x}")
        record.remember("rule", "one", f"{number:024x}")
        record.begin(at(0.0, call_key=f"s/{number}"), {}, {"name": True})

    value = record.value
    assert len(value["meters"]["runs"]["runs"]) == MOST_RUNS
    assert len(value["recent"]["rule"]) == MOST_SESSIONS
    assert len(value["recent"]["rule"]["one"]) == LONGEST_MEMORY
    assert len(value["running"]) == MOST_RUNNING
    assert len(json.dumps(value)) < MAX_BYTES


@given(st.sampled_from([None, 20.0]), st.booleans(), st.integers(1, 5))
def test_what_is_taken_back_was_never_there(seconds, by_run, amount):
    record = SessionRecord(None)
    record.add("m", 1, at(1.0), seconds, by_run=by_run)
    record.remember("rule", "s", "before")
    record.begin(at(1.0, call_key="s/1"), {}, {})

    record = again(record)
    record.add("m", amount, at(2.0), seconds, by_run=by_run)
    record.remember("rule", "s", "waits")
    record.begin(at(2.0, call_key="s/2"), {}, {"name": True}, ("shell", "/start"))
    record = again(record)
    record.take_back("s/2")
    record.take_back("s/2")

    assert record.used("m", at(3.0), seconds, by_run=by_run) == 1
    assert record.recent("rule", "s") == ["before"]
    assert not record.may_have_happened("name")
    assert record.shell_folder("shell") == ("/start",)


def test_what_many_calls_added_is_not_all_kept():
    record = SessionRecord(None)

    for number in range(2 * MOST_WAITING):
        for limit in range(MOST_COUNTED + number % 2):
            record.remember(f"rule-{limit}", "s", str(number))
        record.begin(at(0.0, call_key=f"s/{number}"), {}, {})

    running = record.value["running"]
    assert len([each for each in running.values() if "counted" in each]) == MOST_WAITING
    assert len(json.dumps(record.value)) < MAX_BYTES


def test_a_call_that_is_forgotten_may_have_happened():
    record = SessionRecord(None)
    record.begin(at(0.0, call_key="s/first"), {}, {"first": True})

    for number in range(MOST_RUNNING):
        record.begin(at(0.0, call_key=f"s/{number}"), {}, {"later": True})

    assert record.may_have_happened("first")
    assert not record.has_happened("first")


def test_what_is_sure_stays_sure():
    record = SessionRecord(None)

    for name, is_sure in (("a", True), ("a", False)):
        record.begin(at(0.0), {}, {name: is_sure})
        record.end("s/c", {name: True})

    assert record.has_happened("a")


def test_a_negative_amount_gives_nothing_back():
    record = SessionRecord(None)

    for amount in (5, -3, 0):
        record.add("m", amount, at(0.0), None, by_run=False)

    assert record.used("m", at(0.0), None, by_run=False) == 5

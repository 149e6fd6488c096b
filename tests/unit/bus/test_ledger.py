"""What `specs` should not mention of the ledger: how a dispatch is written down."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from toolbus import EventBus
from toolbus.bus.dispatch.details import HandlerStep
from toolbus.bus.ledger.records import Cause, DispatchRecord, HandlerEntry
from toolbus.bus.ledger.trace import Digests, Trace, changed_fields
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    Deny,
    ModelReply,
    ModelRequest,
    RunStart,
    Scope,
    ToolCallFailure,
    ToolCallOutcome,
    ToolCallPersist,
)
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    decoder,
    encode,
)

CALL = ToolCall(id="c", name="read", arguments={"path": "x"})
RESPONSE = ToolResponse.from_text("hello")
SCOPE = Scope(agent_id="main", run_id="r", context={"user": 7})


@dataclass(frozen=True)
class Handler:
    name: str = "redact"
    priority: int = 50
    kind: str = "transformer"
    composite: bool = False


def step(name, before, after, *, failed=None, ended_ns=0):
    return HandlerStep(name, before, after, None, failed, None, ended_ns)


REDACT = Handler()


def trace(*handlers, value=CALL, digests=None):
    return Trace("tool:call:before", value, SCOPE, digests or Digests(b"k"), handlers=handlers)


def digest(value, digests=None):
    return (digests or Digests(b"k")).digest_and_size(value)[0]


def steps_of(steps, status, reason=None):
    written = trace(REDACT)
    written._turn_ns = 100
    written.add(REDACT, status, cause=Cause(reason), steps=steps)
    return written.finish("changed").entries


def test_digests_of_equal_values_are_equal():
    digests = Digests()

    same = ToolCall(id="c", name="read", arguments={"path": "x"})
    assert digest(CALL, digests) == digest(same, digests)
    assert digest(CALL, digests) != digest(CALL.with_arguments({}), digests)
    assert len(digest(CALL, digests)) == 32


def test_digests_depend_on_the_key():
    assert digest("secret", Digests()) != digest("secret", Digests())
    assert digest("secret") == digest("secret")


def test_what_has_no_encoding_has_no_digest():
    endless = []
    endless.append(endless)

    assert [digest(value) for value in (object(), "\ud800", endless)] == ["", "", ""]


def test_a_record_tells_who_spoke_and_how_it_ended():
    record = trace().finish("denied", "too dear")

    assert (record.event, record.scope) == ("tool:call:before", SCOPE)
    assert (record.subject, record.call_id) == ("c", "c")
    assert (record.outcome, record.reason, record.entries) == ("denied", "too dear", ())
    assert record.original == digest(CALL)
    assert record.started_ns > 0
    assert record.duration_ns >= 0


def test_a_handler_that_ran_leaves_no_digests():
    written = trace(REDACT)

    written.add(REDACT, "ran")
    (entry,) = written.finish("unchanged").entries

    assert (entry.name, entry.priority, entry.kind) == ("redact", 50, "transformer")
    assert (entry.status, entry.fields, entry.before, entry.after) == ("ran", (), None, None)
    assert entry.duration_ns > 0


def test_a_change_leaves_fields_digests_and_values():
    written, after = trace(REDACT), CALL.with_arguments({})

    written.add(REDACT, "changed", change=(CALL, after))
    (entry,) = written.finish("changed").entries

    assert entry.fields == ("arguments",)
    assert (entry.before, entry.after) == (digest(CALL), digest(after))
    assert (entry.value_before, entry.value_after) == (CALL, after)


def test_handlers_without_a_turn_are_in_the_record():
    handlers = [Handler(name) for name in "abcd"]
    written = trace(*handlers)

    written.add(handlers[1], "answered")
    written.add(handlers[2], "ran")

    entries = written.finish("answered").entries
    assert [entry.name for entry in entries] == ["a", "b", "c", "d"]
    assert [entry.status for entry in entries] == ["not_run", "answered", "ran", "not_run"]


def test_steps_stand_one_by_one():
    after = CALL.with_arguments({})
    steps = [step("cut", CALL, after, ended_ns=130), step("same", after, after, ended_ns=150)]

    entries = steps_of(steps, "changed")

    assert [(entry.name, entry.status) for entry in entries] == [
        ("cut", "changed"),
        ("same", "ran"),
    ]
    assert [entry.duration_ns for entry in entries] == [30, 20]
    assert [entry.fields for entry in entries] == [("arguments",), ()]


def test_a_failed_step_tells_why():
    entries = steps_of([step("cut", CALL, CALL, failed="ValueError", ended_ns=130)], "ran")

    assert [(entry.name, entry.status, entry.reason) for entry in entries] == [
        ("cut", "failed", "ValueError")
    ]


def test_a_rejected_change_is_its_last_step_s():
    after = CALL.with_arguments({})
    steps = [step("one", CALL, after), step("two", after, CALL)]

    entries = steps_of(steps, "rejected", "path is missing")

    assert [(entry.status, entry.reason) for entry in entries] == [
        ("changed", None),
        ("rejected", "path is missing"),
    ]


def test_a_handler_that_fails_after_its_steps_stands_behind_them():
    entries = steps_of([step("one", CALL, CALL)], "failed", "KeyError")

    assert [(entry.name, entry.status, entry.reason) for entry in entries] == [
        ("one", "ran", None),
        ("redact", "failed", "KeyError"),
    ]


def test_a_record_without_values_keeps_the_digests():
    written = trace(REDACT)
    written.add(REDACT, "changed", change=(CALL, CALL.with_arguments({})))
    record = written.finish("changed")

    bare = record.without_values()

    assert b'"path"' in encode(record)
    assert b'"path"' not in encode(bare)
    assert bare.entries == (replace(record.entries[0], value_before=None, value_after=None),)


def test_a_record_survives_a_round_trip():
    written = trace(REDACT)
    written.add(REDACT, "failed", cause=Cause("ValueError"))
    record = written.finish("unchanged").without_values()

    decoded = decoder(DispatchRecord)(encode(record))

    assert decoded == record
    assert [replace(entry, duration_ns=0) for entry in decoded.entries] == [
        HandlerEntry(
            name="redact", priority=50, kind="transformer", status="failed", reason="ValueError"
        ),
    ]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (CALL, CALL, ()),
        (CALL, replace(CALL, name="write"), ("name",)),
        (CALL, CALL.with_arguments({"path": True}), ("arguments",)),
        (CALL.with_arguments({"n": 1}), CALL.with_arguments({"n": 1.0}), ("arguments",)),
        (CALL, RESPONSE, ()),
        ((1,), (2,), ()),
    ],
)
def test_changed_fields_are_named(before, after, fields):
    assert changed_fields(before, after) == fields


def test_each_value_is_digested_once():
    taken = []

    class Counting(Digests):
        def digest_and_size(self, value):
            taken.append(value)
            return super().digest_and_size(value)

    second, third = CALL.with_arguments({"path": "y"}), CALL.with_arguments({"path": "z"})
    handlers = [Handler(name) for name in "abc"]
    written = trace(*handlers, digests=Counting(b"k"))
    written.add(handlers[0], "ran")
    written.add(handlers[1], "changed", change=(CALL, second))
    written.add(handlers[2], "changed", change=(second, third))
    ended = [written.differs(value) for value in (third, CALL, replace(CALL))]

    assert ended == [True, False, False]
    assert taken == [CALL, second, third, CALL]
    assert taken[-1] is not CALL


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (SystemMessage(id="s", content=""), ("s", "")),
        (UserMessage(id="u", content=""), ("u", "")),
        (AssistantMessage(id="a"), ("a", "")),
        (ToolMessage(id="t", tool_call_id="c", tool_name="read"), ("t", "c")),
        (CALL, ("c", "c")),
        (
            ToolCallOutcome(requested=CALL, executed=None, response=RESPONSE, status="denied"),
            ("c", "c"),
        ),
        (
            ToolCallFailure(call=CALL, response=RESPONSE, error_type="E", error_text=""),
            ("c", "c"),
        ),
        (
            ToolCallPersist(
                session_key="s",
                agent_id="main",
                tool_name="read",
                tool_call_id="c",
                tool_input={},
                tool_result=None,
                message_id="a",
                tool_message_id="t",
            ),
            ("t", "c"),
        ),
        (
            ModelReply(
                request=ModelRequest(model="m", messages=()),
                message=AssistantMessage(id="a"),
                duration_ns=1,
            ),
            ("a", ""),
        ),
        (RunStart(prompt="hi"), ("", "")),
        (Deny("no"), ("", "")),
    ],
)
def test_a_record_names_its_subject(value, ids):
    record = trace(value=value).finish("observed")

    assert (record.subject, record.call_id) == ids


def test_a_tap_without_digests_has_none():
    bus, records = EventBus(), []
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: UserMessage(id="m", content="new"))
    bus.tap(records.append, digests=False)

    bus.apply_sync(MESSAGE_APPEND_BEFORE, UserMessage(id="m", content="old"))

    (record,) = records
    assert (record.original, record.entries[0].after) == ("", "")
    assert record.entries[0].fields == ("content",)


def test_one_tap_that_wants_digests_is_enough():
    bus, records = EventBus(), []
    bus.tap(records.append, digests=False)
    bus.tap(records.append)

    bus.apply_sync(MESSAGE_APPEND_BEFORE, UserMessage(id="m", content="old"))

    assert all(record.original for record in records)

"""The scenarios of `specs/events.md`."""

import subprocess
import sys
from typing import Any, Literal, NewType, TypedDict

import msgspec
import pytest

from toolbus import events
from toolbus.errors import FreezeError, RegistrationError
from toolbus.events import (
    CATALOGUE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
    TOOLS_PROVIDE,
    Ask,
    Deny,
    McpRequest,
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    ObserveEvent,
    Retry,
    RunFailure,
    RunResult,
    RunStart,
    Scope,
    ToolCallFailure,
    ToolCallOutcome,
    ToolCallPersist,
    ToolSpec,
    TransformEvent,
    by_name,
)
from toolbus.messages.immutable import FrozenDict
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    decoder,
    encode,
    encode_msgpack,
)

CALL = ToolCall(id="c", name="read", arguments={"path": "x", "lines": [1, {"to": 2}]})
RESPONSE = ToolResponse.from_text("hello")
USER = UserMessage(id="u", content="hi", metadata={"a": [{"b": None}]})
ANSWER = AssistantMessage(id="a", content="done", usage={"input": 3})
TOOL = ToolMessage(id="t", tool_call_id="c", tool_name="read", tool_response=RESPONSE)
SPEC = ToolSpec(name="read", input_schema={"type": "object", "required": ["path"]})
START = RunStart(prompt="hi", messages=[USER])
REQUEST = ModelRequest(model="m", messages=[USER], tools=[SPEC], settings={"stop": ["x"]})
FAILED = {"error_type": "ValueError", "error_text": "no such file", "attempts": 2}
PERSIST = ToolCallPersist(
    session_key="s",
    agent_id="main",
    tool_name="read",
    tool_call_id="c",
    tool_input={"path": ["x"]},
    tool_result=RESPONSE,
    message_id="a",
    tool_message_id="t",
)
OUTCOME = ToolCallOutcome(requested=CALL, executed=None, response=RESPONSE, status="denied")
VALUES = {
    "run:before": START,
    "run:error": RunFailure(start=START, **FAILED),
    "run:after": RunResult(status="ok", message=ANSWER, usage={"input": 3}, messages=[USER]),
    "tools:provide": (SPEC,),
    "model:call:before": REQUEST,
    "model:call:error": ModelFailure(request=REQUEST, **FAILED),
    "model:call:delta": ModelDelta(kind="tool_call", text="{", index=1),
    "model:call:after": ModelReply(request=REQUEST, message=ANSWER, duration_ns=7),
    "tool:call:before": CALL,
    "tool:call:error": ToolCallFailure(call=CALL, response=RESPONSE, **FAILED),
    "tool:call:after": OUTCOME,
    "message:append:before": TOOL,
    "message:persist:before": ANSWER,
    "tool:call:persist:before": msgspec.structs.replace(PERSIST, tool_result=None),
    "tool:call:persist:after": PERSIST,
    "message:append:after": SystemMessage(id="s", content="be brief"),
    "mcp:request:before": McpRequest(method="resources/read", params={"uri": "file:///a"}),
}
TABLE = (
    ("run:before", TransformEvent, RunStart, ()),
    ("run:error", TransformEvent, RunFailure, (RunResult,)),
    ("run:after", ObserveEvent, RunResult, None),
    ("tools:provide", TransformEvent, tuple[ToolSpec, ...], ()),
    ("model:call:before", TransformEvent, ModelRequest, (AssistantMessage,)),
    ("model:call:error", TransformEvent, ModelFailure, (AssistantMessage,)),
    ("model:call:delta", ObserveEvent, ModelDelta, None),
    ("model:call:after", ObserveEvent, ModelReply, None),
    ("tool:call:before", TransformEvent, ToolCall, (ToolResponse,)),
    ("tool:call:error", TransformEvent, ToolCallFailure, (ToolResponse, Retry)),
    ("tool:call:after", ObserveEvent, ToolCallOutcome, None),
    ("message:append:before", TransformEvent, Message, ()),
    ("message:persist:before", TransformEvent, Message, ()),
    ("tool:call:persist:before", ObserveEvent, ToolCallPersist, None),
    ("tool:call:persist:after", ObserveEvent, ToolCallPersist, None),
    ("message:append:after", ObserveEvent, Message, None),
    ("mcp:request:before", TransformEvent, McpRequest, ()),
)


class Settings(TypedDict):
    colour: str


def test_events_of_one_name_are_two_events():
    one, other = TransformEvent("order:placed", dict), TransformEvent("order:placed", dict)
    seen = ObserveEvent("order:seen", dict)

    found = {one: 1, other: 2, seen: 3}

    assert one != other
    assert len(found) == 3
    assert (repr(one), repr(seen)) == ("<TransformEvent order:placed>", "<ObserveEvent order:seen>")


def test_an_event_checks_replacements_of_its_value():
    anything: TransformEvent[Any, Any] = TransformEvent("any", Any)
    optional: TransformEvent[Any, Any] = TransformEvent("optional", int | None)
    mapping: TransformEvent[Any, Any] = TransformEvent("mapping", dict[str, int])

    accepted = [
        TOOL_CALL_BEFORE.accepts(CALL),
        *[events.MESSAGE_APPEND_BEFORE.accepts(message) for message in (USER, ANSWER, TOOL)],
        anything.accepts(object()),
        optional.accepts(3),
        optional.accepts(None),
        mapping.accepts({"a": 1}),
    ]
    refused = [
        TOOL_CALL_BEFORE.accepts(RESPONSE),
        events.MESSAGE_APPEND_BEFORE.accepts(CALL),
        optional.accepts("3"),
        mapping.accepts([1]),
    ]

    assert all(accepted)
    assert not any(refused)


def test_an_event_of_tuples_checks_every_item():
    pair: TransformEvent[Any, Any] = TransformEvent("pair", tuple[int, str])

    accepted = [TOOLS_PROVIDE.accepts(value) for value in [(), (SPEC,), (SPEC, SPEC)]]
    refused = [TOOLS_PROVIDE.accepts(value) for value in [(SPEC, "x"), [SPEC], SPEC]]

    assert all(accepted)
    assert not any(refused)
    assert pair.accepts((1, "one"))


def test_an_event_reports_its_types():
    refund: TransformEvent[Any, Any] = TransformEvent(
        "refund", int, answer=ToolResponse | str, asks=True
    )
    plain = TransformEvent("plain", int)

    facts = [(event.value, event.answer, event.asks) for event in (refund, plain)]

    assert facts == [(int, (ToolResponse, str), True), (int, (), False)]


def test_an_observe_event_reports_whether_it_waits():
    passing, waiting = ObserveEvent("a", int), ObserveEvent("b", int, awaited=True)

    awaited = passing.awaited, waiting.awaited

    assert awaited == (False, True)


@pytest.mark.parametrize("bad", [Literal["a"], NewType("Id", str), Settings, "str", 3])
def test_a_type_without_instances_is_refused(bad):
    ways = ({"value": bad}, {"value": tuple[bad, ...]}, {"value": int, "answer": bad})

    for way in ways:
        with pytest.raises(RegistrationError) as caught:
            TransformEvent("order:placed", **way)

        assert caught.value.what == "event 'order:placed'"
        assert repr(bad) in caught.value.reason


def test_the_catalogue_is_that_of_the_design():
    table = TABLE

    rows = [
        (event.name, type(event), event.value, getattr(event, "answer", None))
        for event in CATALOGUE
    ]

    assert tuple(rows) == table


def test_only_calls_and_runs_allow_questions():
    transforms = [event for event in CATALOGUE if isinstance(event, TransformEvent)]

    asking = [event for event in transforms if event.asks]

    assert asking == [RUN_BEFORE, TOOL_CALL_BEFORE]


def test_only_the_persist_events_are_awaited():
    observed = [event for event in CATALOGUE if isinstance(event, ObserveEvent)]

    awaited = [event for event in observed if event.awaited]

    assert awaited == [TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER]


def test_an_event_s_constant_matches_its_name():
    names = [event.name for event in CATALOGUE]

    constants = [getattr(events, name.upper().replace(":", "_")) for name in names]

    assert constants == list(CATALOGUE)


def test_an_event_is_found_by_name():
    names = [event.name for event in CATALOGUE]

    found = [by_name(name) for name in names]

    assert found == list(CATALOGUE)
    assert by_name("tool:call:after") is TOOL_CALL_AFTER


def test_an_unknown_name_suggests_the_nearest():
    slip = "tool:call:befor"

    with pytest.raises(RegistrationError) as caught:
        by_name(slip)

    assert (
        str(caught.value)
        == "event 'tool:call:befor': not in the catalogue; known: tool:call:before"
    )


def test_a_dissimilar_name_lists_all_names():
    strange = "zzz"

    with pytest.raises(RegistrationError) as caught:
        by_name(strange)

    assert all(event.name in caught.value.reason for event in CATALOGUE)


@pytest.mark.parametrize("event", CATALOGUE, ids=lambda event: event.name)
def test_every_event_s_value_survives_both_codecs(event):
    value = VALUES[event.name]

    from_json = decoder(event.value)(encode(value))
    from_msgpack = msgspec.msgpack.decode(encode_msgpack(value), type=event.value)

    assert from_json == from_msgpack == value
    assert hash(from_json) == hash(from_msgpack) == hash(value)
    assert isinstance(event, ObserveEvent) or event.accepts(from_json)


@pytest.mark.parametrize(
    "record",
    [
        Deny("too dear", detail="limit 100"),
        Ask("delete 3 files?"),
        Retry(delay=0.5),
        Scope(agent_id="sub", lineage=("main",), context={"user": {"id": 7}}),
    ],
)
def test_verdicts_and_scopes_survive_both_codecs(record):
    data = encode(record)

    decoded = decoder(type(record))(data)

    assert decoded == record
    assert hash(decoded) == hash(record)


def test_a_failure_keeps_text_never_the_exception():
    error = OSError("no file 'größe-\udcff'")
    facts = {"error_type": type(error).__name__, "error_text": str(error)}

    failures = [
        RunFailure(start=START, **facts),
        ModelFailure(request=REQUEST, **facts),
        ToolCallFailure(call=CALL, response=RESPONSE, **facts),
    ]

    for failure in failures:
        assert failure.error_text == r"no file 'größe-\udcff'"
        assert (failure.error_type, failure.attempts) == ("OSError", 1)
        assert decoder(type(failure))(encode(failure)) == failure


def test_a_creator_s_later_changes_have_no_effect():
    schema, settings, parts, specs = {"required": ["a"]}, {"stop": ["x"]}, [USER], [SPEC]
    spec = ToolSpec(name="t", input_schema=schema, output_schema=schema, annotations=schema)
    request = ModelRequest(model="m", messages=parts, tools=specs, settings=settings)
    start, result = RunStart(prompt="", messages=parts), RunResult(status="ok", messages=parts)
    persist = msgspec.structs.replace(PERSIST, tool_input=schema)

    schema["required"].append("b")
    settings["stop"].append("y")
    parts.clear()
    specs.clear()

    assert spec.input_schema == spec.output_schema == spec.annotations == {"required": ("a",)}
    assert request == ModelRequest(
        model="m", messages=(USER,), tools=(SPEC,), settings={"stop": ("x",)}
    )
    assert start.messages == result.messages == (USER,)
    assert persist.tool_input == {"required": ("a",)}


def test_assigning_anywhere_in_a_value_raises():
    records = [value for value in VALUES.values() if not isinstance(value, tuple)] + [SPEC, Scope()]
    fields = [(record, name) for record in records for name in record.__struct_fields__]

    for record, name in fields:
        value = getattr(record, name)
        with pytest.raises(AttributeError):
            setattr(record, name, value)

        assert not isinstance(value, list)
        assert not isinstance(value, dict) or type(value) is FrozenDict
    assert {type(record) for record in records} >= {RunStart, ModelRequest, ToolCallPersist}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: RunStart(prompt=None), "expected text, got `NoneType` - at `$.prompt`"),
        (lambda: RunStart(prompt="", messages=["x"]), "`str` does not belong here - at `$.mess"),
        (lambda: ModelRequest(model="m", messages=None), "expected array, got `NoneType` - at `$"),
        (lambda: ToolSpec(name="t", input_schema=True), "expected object, got `bool` - at `$.inp"),
        (lambda: ToolSpec(name=7), "expected text, got `int` - at `$.name`"),
        (
            lambda: Scope(context={"at": object()}),
            "expected a JSON value, got `object` - at `$.con",
        ),
        (lambda: Scope(lineage="main"), "expected array, got `str` - at `$.lineage`"),
        (lambda: RunResult(status="ok", usage={"n": 2**64}), "an integer of 65 bits does not fit"),
    ],
)
def test_values_of_wrong_types_are_refused(make, error):
    wrong = make

    with pytest.raises(FreezeError) as caught:
        wrong()

    assert str(caught.value).startswith(error)


def test_a_run_s_result_has_a_text():
    answered, denied = RunResult(status="ok", message=ANSWER), RunResult(status="denied")

    texts = answered.text, denied.text

    assert texts == ("done", "")


def test_a_scope_may_be_empty():
    nothing = {}

    scope = Scope(**nothing)

    assert (scope.agent_id, scope.session_id, scope.run_id, scope.turn) == ("", "", "", 0)
    assert (scope.lineage, scope.context) == ((), {})


def test_the_caller_s_context_is_frozen():
    context, lineage = {"user": {"roles": ["admin"]}}, ["main"]

    scope = Scope(agent_id="sub", lineage=lineage, context=context)
    context["user"]["roles"].append("root")
    lineage.append("other")

    assert scope.context == {"user": {"roles": ("admin",)}}
    assert scope.lineage == ("main",)


def test_reason_and_detail_stay_apart():
    full, short = Deny("too dear", detail="limit 100 for tenant 7"), Deny("no")

    faces = [(deny.reason, deny.detail) for deny in (full, short)]

    assert faces == [("too dear", "limit 100 for tenant 7"), ("no", None)]


def test_a_verdict_accepts_any_reason():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    class Loud(str):
        __slots__ = ()

        def __str__(self):
            raise RuntimeError

    none = "refused without a reason"

    denials = [
        (Deny(ValueError("the secret")), none, "ValueError: the secret"),
        (Deny(None), none, None),
        (Deny(), none, None),
        (Deny(42), none, "42"),
        (Deny(" "), none, None),
        (Deny(Mute()), none, "Mute"),
        (Deny("no", detail=3), "no", "3"),
        (Deny(Loud("no"), Loud("rule")), "no", "rule"),
        (Deny(KeyError("k"), detail=ValueError("v")), none, "KeyError: 'k'; ValueError: v"),
    ]
    questions = [
        (Ask(None), "may this go on?"),
        (Ask(), "may this go on?"),
        (Ask(""), "may this go on?"),
        (Ask(ValueError("v")), "may this go on? (ValueError: v)"),
        (Ask(Mute()), "may this go on? (Mute)"),
    ]

    for made, reason, detail in denials:
        assert (made.reason, made.detail) == (reason, detail)
        assert decoder(Deny)(encode(made)) == made
    for made, prompt in questions:
        assert made.prompt == prompt


def test_importing_events_loads_no_event_loop():
    program = "import sys, toolbus.events; print(*sorted(sys.modules))"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "logging", "blinker", "toolbus.bus.dispatch", "toolbus.bus"}

"""The scenarios of `specs/ledger.md`."""

import asyncio
import gc
import hashlib
import json
import time

import pytest

from toolbus.agent import Agent
from toolbus.bus import EventBus
from toolbus.bus.dispatch.details import PartNote
from toolbus.bus.ledger.trace import Digests, Trace
from toolbus.components import AgentComponent, guard, on
from toolbus.errors import DispatchDepthError, HandlerError
from toolbus.events import (
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
    Ask,
    Deny,
    ObserveEvent,
    Scope,
    TransformEvent,
)
from toolbus.messages import AssistantMessage, ToolCall, UserMessage, encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store.sqlite import SqliteStore

WORD = TransformEvent("word", str)
ANY = TransformEvent("any", object)
ASKED = TransformEvent("asked", str, answer=float, asks=True)
NOTE = ObserveEvent("note", str)
FACT = ObserveEvent("fact", str, awaited=True)
CALL = ToolCall(id="c", name="shell", arguments={"command": "ls"})


def tapped(**options):
    """Return a bus and the list of its records."""
    bus, records = EventBus(), []
    bus.tap(records.append, **options)
    return bus, records


def told(record):
    """Return name, status and reason of each entry."""
    return [(entry.name, entry.status, entry.reason) for entry in record.entries]


def fail(ctx):
    raise ValueError("the secret")


def changes(value):
    """Return a transformer that leaves *value*."""
    return lambda ctx: value


# --- every handler is in the record --------------------------------------------------------------


def test_a_record_describes_one_dispatch():
    bus, records = tapped()
    scope, before = Scope(agent_id="main", run_id="r"), time.time_ns()
    bus.on(TOOL_CALL_BEFORE, changes(CALL.with_arguments({})), priority=7, name="empty")

    bus.apply_sync(TOOL_CALL_BEFORE, CALL, scope=scope)

    (record,) = records
    assert (record.event, record.scope) == ("tool:call:before", scope)
    assert (record.subject, record.call_id) == ("c", "c")
    assert (record.outcome, record.reason) == ("changed", None)
    assert before <= record.started_ns <= time.time_ns()
    (entry,) = record.entries
    assert (entry.name, entry.priority, entry.kind) == ("empty", 7, "transformer")
    assert entry.status == "changed"
    assert 0 < entry.duration_ns <= record.duration_ns < 10**10


async def test_each_status_is_recorded(caplog):
    def owner(ctx):
        return None

    async def slow(ctx):
        await asyncio.Event().wait()

    bus, records = tapped()
    bus.on(ASKED, changes(None), name="ran", priority=900)
    bus.on(ASKED, changes("new"), name="changed", priority=800)
    bus.on(ASKED, fail, name="failed", priority=700)
    bus.on(ASKED, slow, name="timeout", priority=600, timeout=0.01)
    bus.on(ASKED, changes(7), name="contract", priority=500)
    bus.on(ASKED, owner, name="predicate", priority=400, when=lambda ctx: False)
    bus.on(ASKED, changes(1.5), name="answered", priority=100)
    bus.on(ASKED, changes("never"), name="late", priority=0)
    bus.guard(ASKED, changes(Ask("really?")), name="asked")
    bus.guard(ASKED, changes(None), name="content")

    await bus.apply(ASKED, "x")
    bus.guard(ASKED, changes(Deny("no", "a fact")), name="denied")
    bus.guard(ASKED, changes(None), name="last")
    await bus.apply(ASKED, "x")

    assert told(records[0]) == [
        ("ran", "ran", None),
        ("changed", "changed", None),
        ("failed", "failed", "raised an error"),
        ("timeout", "timeout", "timed out after 0.01 s"),
        ("contract", "contract", "returned `int`, which the event does not take"),
        ("predicate", "skipped", None),
        ("answered", "answered", None),
        ("late", "not_run", None),
        ("asked", "asked", "really?"),
        ("content", "ran", None),
    ]
    assert (records[0].outcome, records[0].reason) == ("asked", "really?")
    assert told(records[1])[-3:] == [
        ("content", "ran", None),
        ("denied", "denied", "no"),
        ("last", "not_run", None),
    ]
    assert (records[1].outcome, records[1].reason) == ("denied", "no")
    assert [entry.kind for entry in records[1].entries[-5:]] == ["transformer", *["guard"] * 4]
    bus, records = tapped()

    class Owner:
        def method(self, ctx):
            return None

    held = Owner()

    @bus.on(ASKED, priority=900)
    def drop(ctx):
        nonlocal held
        held = None
        gc.collect()

    bus.on(ASKED, held.method, name="owner", weak=True)
    bus.on(ASKED, changes(1.5), name="answered")
    bus.apply_sync(ASKED, "x")
    bus.apply_sync(WORD, "x")
    assert told(records[0])[1:] == [("owner", "skipped", None), ("answered", "answered", None)]
    assert (records[0].outcome, records[0].reason) == ("answered", None)
    assert (records[1].outcome, records[1].entries) == ("unchanged", ())


async def test_observers_are_recorded(caplog):
    async def later(ctx):
        return None

    bus, records = tapped()
    for event in (NOTE, FACT):
        bus.on(event, lambda ctx: None, name="ran")
        bus.on(event, fail)
        bus.on(event, lambda ctx: None, name="skipped", when=lambda ctx: False)
        bus.on(event, later)

    bus.do(NOTE, "x")
    await bus.drain()
    await bus.observe(FACT, "x")

    for record, status in zip(records, ("queued", "ran"), strict=True):
        assert told(record) == [
            ("ran", "ran", None),
            ("fail", "failed", "raised an error"),
            ("skipped", "skipped", None),
            ("later", status, None),
        ]
        assert (record.outcome, record.reason) == ("observed", None)
        assert all(entry.duration_ns > 0 for entry in record.entries)
        assert {entry.kind for entry in record.entries} == {"observer"}


def test_a_failed_dispatch_leaves_a_record():
    def interrupt(ctx):
        raise KeyboardInterrupt

    for event, handler, options, error, reason in [
        (WORD, fail, {"on_error": "raise"}, HandlerError, "raised an error"),
        (WORD, interrupt, {}, KeyboardInterrupt, "was ended by KeyboardInterrupt"),
        (NOTE, interrupt, {}, KeyboardInterrupt, "was ended by KeyboardInterrupt"),
    ]:
        bus, records = tapped()
        bus.on(event, lambda ctx: None, name="first")
        bus.on(event, handler, name="culprit", **options)
        bus.on(event, lambda ctx: None, name="last")

        with pytest.raises(error):
            (bus.apply_sync if event is WORD else bus.do)(event, "x")

        assert told(records[0]) == [
            ("first", "ran", None),
            ("culprit", "failed", reason),
            ("last", "not_run", None),
        ]
        assert (records[0].outcome, records[0].reason) == ("raised", None)
    bus, records = tapped()
    bus.on(NOTE, lambda ctx: bus.do(NOTE, "x"), name="again")
    with pytest.raises(DispatchDepthError):
        bus.do(NOTE, "x")
    assert [record.outcome for record in records] == ["raised"] * 16
    assert told(records[-1]) == [("again", "failed", "raised an error")]


def test_a_refused_replacement_is_recorded():
    bus, records = tapped()
    bus.on(WORD, changes("good"), name="first")
    bus.on(WORD, changes("bad"), name="second")
    bus.on(WORD, changes("good"), name="third")

    bus.apply_sync(WORD, "x", check=lambda ctx, value: "is bad" if value == "bad" else None)

    assert told(records[0]) == [
        ("first", "changed", None),
        ("second", "rejected", "is bad"),
        ("third", "not_run", None),
    ]
    assert (records[0].outcome, records[0].reason) == ("rejected", "is bad")


def test_handlers_of_other_senders_are_not_recorded():
    bus, records = tapped()
    for sender in ("a", "b", "sub", None):
        bus.on(WORD, changes(None), name=str(sender), sender=sender)
        bus.guard(WORD, changes(None), name=f"{sender}!", sender=sender)

    for scope in (
        Scope(),
        Scope(agent_id="a"),
        Scope(agent_id="b"),
        Scope(agent_id="sub", lineage=("a",)),
    ):
        bus.apply_sync(WORD, "x", scope)

    assert [[entry.name for entry in record.entries] for record in records] == [
        ["None", "None!"],
        ["a", "None", "a!", "None!"],
        ["b", "None", "b!", "None!"],
        ["a", "sub", "None", "a!", "sub!", "None!"],
    ]


# --- changes are recorded without values ---------------------------------------------------------


def test_changed_fields_are_named():
    bus, records = tapped()
    user = UserMessage(id="u", content="hi")
    bus.on(ANY, changes(CALL.with_arguments({})), name="one")
    bus.on(ANY, changes(ToolCall(id="c", name="other", raw="{")), name="two")
    bus.on(WORD, changes("new"), name="no record")

    bus.apply_sync(ANY, CALL)
    bus.apply_sync(WORD, "x")
    bus.on(ANY, changes(user), name="type", when=lambda ctx: ctx.original == "x", priority=999)
    bus.apply_sync(ANY, "x")

    assert [entry.fields for entry in records[0].entries] == [("arguments",), ("name", "raw")]
    assert records[1].entries[0].fields == ()
    assert records[2].entries[0].fields == ()


def test_sizes_are_recorded():
    bus, records = tapped()
    short = CALL.with_arguments({})
    bus.on(TOOL_CALL_BEFORE, changes(short))
    bus.on(ANY, changes(object()))

    bus.apply_sync(TOOL_CALL_BEFORE, CALL)
    bus.apply_sync(ANY, object())

    known, unknown = records
    (entry,) = known.entries
    assert known.size == entry.size_before == len(encode(CALL))
    assert entry.size_after == len(encode(short))
    assert (unknown.size, unknown.entries[0].size_after) == (0, 0)


def test_equal_digests_mean_equal_values():
    bus, records = tapped()
    bus.on(WORD, changes("new"))
    bus.on(WORD, lambda ctx: None)
    bus.on(WORD, changes("x"))

    bus.apply_sync(WORD, "x")

    first, idle, last = records[0].entries
    assert (first.before, first.after) == (records[0].original, last.before)
    assert last.after == records[0].original != first.after
    assert (idle.before, idle.after) == (None, None)
    assert records[0].outcome == "unchanged"


def test_an_equal_copy_is_not_a_change():
    bus, records = tapped()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments(ctx.value.arguments))

    bus.apply_sync(TOOL_CALL_BEFORE, CALL)

    (entry,) = records[0].entries
    assert (entry.status, entry.before, entry.after, entry.fields) == ("ran", None, None, ())
    assert records[0].outcome == "unchanged"


def test_digests_cannot_be_guessed():
    digests = []
    for bus, records in (tapped(), tapped()):
        bus.on(WORD, changes("new"))

        bus.apply_sync(WORD, "s3cret")

        assert b"s3cret" not in encode(records[0])
        digests.append(records[0].original)

    assert len(set(digests)) == 2
    plain = [hashlib.blake2b(text, digest_size=16).hexdigest() for text in (b"s3cret", b'"s3cret"')]
    assert not set(plain) & set(digests)


def test_values_come_on_request():
    bus, full = tapped(values=True)
    bare = []
    bus.tap(bare.append)
    bus.on(WORD, changes("middle"))
    bus.on(WORD, changes("end"))
    bus.on(ASKED, changes(1.5))

    bus.apply_sync(WORD, "begin")
    bus.apply_sync(ASKED, "begin")
    bus.do(NOTE, "begin")

    assert [(record.value, record.result) for record in full] == [
        ("begin", "end"),
        ("begin", 1.5),
        ("begin", "begin"),
    ]
    values = [(entry.value_before, entry.value_after) for entry in full[0].entries]
    assert values == [("begin", "middle"), ("middle", "end")]
    for record in bare:
        assert not any(text in encode(record) for text in (b"begin", b"middle", b'"end"', b"1.5"))
        assert (record.value, record.result) == (None, None)
        assert all(entry.value_before is entry.value_after is None for entry in record.entries)
    assert [record.original for record in bare] == [record.original for record in full]


def test_values_without_an_encoding_have_none():
    bus, records = tapped()
    strange, other = object(), object()
    bus.on(ANY, changes(other))

    ctx = bus.apply_sync(ANY, strange)

    assert ctx.value is other
    (entry,) = records[0].entries
    assert (records[0].original, entry.before, entry.after) == ("", "", "")
    assert (entry.status, records[0].outcome) == ("changed", "changed")


# --- operators see the cause ---------------------------------------------------------------------


def test_details_are_in_the_entry():
    def steps(ctx):
        ctx.step("cut", "cut", failed="raised an error", detail="KeyError: 'k'")
        return Deny("no")

    for handler, verb, event, options, detail in [
        (changes(Deny("no", "rule 17")), "guard", WORD, {}, "rule 17"),
        (changes(Deny("no", "rule 17")), "on", WORD, {}, "rule 17"),
        (fail, "guard", WORD, {}, "ValueError: the secret at "),
        (fail, "on", WORD, {"on_error": "closed"}, "ValueError: the secret at "),
        (fail, "on", WORD, {}, "ValueError: the secret at "),
        (fail, "on", NOTE, {}, "ValueError: the secret at "),
        (steps, "on", WORD, {}, "KeyError: 'k'"),
    ]:
        bus, records = tapped()
        getattr(bus, verb)(event, handler, **options)

        (bus.do if event is NOTE else bus.apply_sync)(event, "x")

        entry = records[0].entries[0]
        assert entry.detail.startswith(detail)
        assert detail not in entry.reason if entry.reason else True
        assert records[0].without_values() is records[0]


def test_details_are_logged(caplog):
    caplog.set_level("INFO", logger="toolbus")
    bus = EventBus()
    bus.guard(WORD, fail)

    assert bus.apply_sync(WORD, "x").denied
    bus.guard(WORD, changes(Deny("no", "rule 17")), priority=900, name="judge")
    assert bus.apply_sync(WORD, "x").denied

    failed, denied = caplog.records
    assert (failed.levelname, failed.handler, failed.exc_info[1].args) == (
        "WARNING",
        "fail",
        ("the secret",),
    )
    assert (denied.levelname, denied.handler, denied.event) == ("INFO", "judge", "word")
    assert denied.getMessage() == "handler 'judge' of 'word' denied: no; detail: rule 17"


class Secretive(AgentComponent):
    """Guards that tell operators more than others."""

    @guard(TOOL_CALL_BEFORE)
    def refuse(self, ctx):
        if ctx.value.name == "refused":
            return Deny("refused", "canary one")
        raise ValueError("canary two")

    @on(MESSAGE_PERSIST_BEFORE)
    def stub(self, ctx):
        return Deny("stubbed", "canary three") if ctx.value.role == "assistant" else None

    @guard(MODEL_CALL_BEFORE)
    def end(self, ctx):
        return Deny("enough", detail="canary four") if len(ctx.value.messages) > 3 else None


async def test_a_detail_stays_out_of_the_model_s_text(tmp_path):
    for keeps in (False, True):
        path = tmp_path / f"{keeps}" / "agent.db"
        path.parent.mkdir()
        calls = [ToolCall(id=name, name=name) for name in ("refused", "broken")]
        model = ScriptedModel([AssistantMessage(id="a", tool_calls=tuple(calls))])
        store = SqliteStore(path)

        async with Agent(
            model, store=store, components=[Secretive()], keep_originals=keeps, session_id="s"
        ) as agent:
            result = await agent.run("go")
            entries = [entry for record in agent.ledger for entry in record.entries]

        assert result.status == "denied"
        details = {entry.detail for entry in entries if entry.detail}
        assert {detail.split(" at ")[0] for detail in details} == {
            "canary one",
            "ValueError: canary two",
            "canary three",
            "canary four",
        }
        told = [encode(one) for one in (*agent.messages, *model.requests, result)]
        assert b"canary" not in b"".join(told)
        kept = {one.body.decode() for one in await store.originals("s")}
        assert (details <= {json.loads(body) for body in kept if body[0] == '"'}) == keeps
        await store.forget_originals("s")
        await store.close()
        assert [file.name for file in path.parent.iterdir() if b"canary" in file.read_bytes()] == []


# --- adapters appear under their own names -------------------------------------------------------


def test_steps_leave_an_entry_each():
    bus, records = tapped()

    @bus.on(WORD, name="adapters", priority=50)
    def adapters(ctx):
        ctx.step("cut", "cu")
        ctx.step("idle", "cu")
        ctx.step("broken", "withheld", failed="raised an error")
        return "withheld"

    ctx = bus.apply_sync(WORD, "cut")

    assert told(records[0]) == [
        ("cut", "changed", None),
        ("idle", "ran", None),
        ("broken", "failed", "raised an error"),
    ]
    cut, idle, broken = records[0].entries
    assert (cut.priority, cut.kind) == (50, "transformer")
    assert cut.before == records[0].original
    assert (idle.before, broken.before) == (None, cut.after)
    assert all(0 <= entry.duration_ns < 10**10 for entry in records[0].entries)
    assert [step.name for step in ctx.steps] == ["cut", "idle", "broken"]


def test_a_handler_s_own_entry_comes_last(caplog):
    for result, status, reason in [
        ("more", "changed", None),
        (None, "changed", None),
        (Deny("no"), "denied", "no"),
        (1.5, "answered", None),
        (7, "contract", "returned `int`, which the event does not take"),
        ("bad", "rejected", "is bad"),
    ]:
        bus, records = tapped()

        @bus.on(ASKED, name="handler")
        def handler(ctx, result=result):
            ctx.step("step", "stepped")
            return result

        bus.apply_sync(ASKED, "x", check=lambda ctx, new: "is bad" if new == "bad" else None)

        assert told(records[0]) == [("step", "changed", None), ("handler", status, reason)]
        if status == "changed":
            last = records[0].entries[1]
            assert last.before == records[0].entries[0].after
            assert (last.after == records[0].original) == (result is None)


async def test_parts_of_a_handler_leave_entries():
    bus, records = tapped()
    said = [PartNote("a", "not_run", "it did not apply"), PartNote("b", "denied", "no force")]
    verdicts = [(said, Deny("rule 'b'")), (said[:1], None), ([], None)]

    @bus.guard(TOOL_CALL_BEFORE, name="policy")
    async def judge(ctx):
        notes, verdict = verdicts.pop(0)
        ctx.note(lambda: notes)
        return verdict

    bus.guard(TOOL_CALL_BEFORE, lambda ctx: None, name="other")

    for _ in range(3):
        await bus.apply(TOOL_CALL_BEFORE, CALL)

    idle = ("a", "not_run", "it did not apply")
    assert told(records[0]) == [
        idle,
        ("b", "denied", "no force"),
        ("policy", "denied", "rule 'b'"),
        ("other", "not_run", None),
    ]
    assert told(records[1]) == [idle, ("policy", "ran", None), ("other", "ran", None)]
    assert told(records[2]) == [("policy", "ran", None), ("other", "ran", None)]


def test_a_rejected_step_is_blamed():
    bus, records = tapped()

    @bus.on(WORD)
    def handler(ctx):
        ctx.step("good", "good")
        ctx.step("bad", "bad")

    bus.apply_sync(WORD, "x", check=lambda ctx, value: "is bad" if value == "bad" else None)

    assert told(records[0]) == [("good", "changed", None), ("bad", "rejected", "is bad")]


# --- taps do not disturb dispatches --------------------------------------------------------------


def test_a_failing_sink_stays_connected(caplog):
    bus, seen, other = EventBus(), [], []

    def careless(record):
        seen.append(record.event)
        raise ValueError("boom")

    bus.tap(careless)
    bus.tap(lambda record: other.append(record.event))

    bus.do(NOTE, "x")
    bus.apply_sync(WORD, "x")

    assert seen == other == ["note", "word"]
    logged = [(one.name, one.event, one.getMessage()) for one in caplog.records]
    assert logged == [
        ("toolbus", name, f"a tap of the bus failed at {name!r}") for name in ("note", "word")
    ]
    assert str(caplog.records[0].exc_info[1]) == "boom"


def test_a_tap_filters_its_records():
    bus, records = tapped(idle=False, without=(NOTE,))
    everything = []
    bus.on(WORD, lambda ctx: None)
    bus.on(NOTE, lambda ctx: None)

    for _ in range(2):
        bus.apply_sync(WORD, "x")
        bus.apply_sync(ANY, "x")
        bus.do(NOTE, "x")
        bus.tap(everything.append)

    assert [record.event for record in records] == ["word", "word"]
    assert [record.event for record in everything] == ["word", "any", "note"]


def test_a_tap_may_be_limited_to_one_session(monkeypatch):
    bus, one, other, all_of_them = EventBus(), [], [], []
    bus.on(WORD, changes("new"))
    bus.tap(one.append, session_id="one")
    bus.tap(other.append, session_id="other", values=True)

    def apply():
        for session in ("one", "other", ""):
            bus.apply_sync(WORD, "x", Scope(agent_id="a", session_id=session))
        return [[record.scope.session_id for record in sink] for sink in (one, other, all_of_them)]

    assert apply() == [["one"], ["other"], []]
    assert (one[0].value, one[0].entries[0].value_after) == (None, None)
    assert (other[0].value, other[0].entries[0].value_after) == ("x", "new")
    end = bus.tap(all_of_them.append)
    assert apply() == [["one"] * 2, ["other"] * 2, ["one", "other", ""]]
    assert {record.value for record in all_of_them} == {None}
    end()

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(Trace, "__init__", refuse)
    bus.apply_sync(WORD, "x", Scope(agent_id="a", session_id="third"))


def test_a_tap_ends():
    bus, records = EventBus(), []
    end, _ = bus.tap(records.append), bus.tap(records.append)

    end()
    end()
    bus.do(NOTE, "x")

    assert len(records) == 1


def test_a_sink_may_dispatch(caplog):
    bus, seen = EventBus(), []

    def again(record):
        seen.append(record.event)
        bus.do(NOTE, "again")

    bus.tap(again)

    bus.apply_sync(WORD, "x")

    assert seen == ["word", *["note"] * 16]
    assert [str(record.exc_info[1])[:37] for record in caplog.records] == [
        "event 'note': dispatched from inside "
    ]


async def test_without_a_tap_nothing_is_written(monkeypatch):
    def refuse(*_):
        raise AssertionError

    bus, other = EventBus(), EventBus()
    bus.tap(refuse)()
    other.tap(refuse, idle=False, without=(WORD, NOTE, FACT))
    monkeypatch.setattr(Trace, "__init__", refuse)
    monkeypatch.setattr(Digests, "digest_and_size", refuse)

    for one in (bus, other):
        for event in (WORD, NOTE, FACT):
            one.on(event, lambda ctx: None)
        await one.apply(WORD, "x")
        one.apply_sync(WORD, "x")
        one.do(NOTE, "x")
        await one.observe(FACT, "x")
        one.apply_sync(ANY, "x")

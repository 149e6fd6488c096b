"""What a timeline promises beside its scenarios."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus import AssistantMessage, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.events import Scope
from toolbus.history.timeline import read_timeline
from toolbus.store import AppendRequest, PostgresStore, SqliteStore
from toolbus.store.store_factory import open_reader

MS = 10**6


def record(event, start, *, subject="", call_id="", run="r", turn=1, outcome="unchanged", **more):
    return DispatchRecord(
        event=event,
        scope=Scope(session_id="s", run_id=run, turn=turn),
        subject=subject,
        call_id=call_id,
        started_ns=start * MS,
        duration_ns=MS,
        outcome=outcome,
        original="d",
        **more,
    )


def judged(call_id, start, **more):
    return record("tool:call:before", start, subject=call_id, call_id=call_id, **more)


def admitted(message_id, start, **more):
    return record("message:append:before", start, subject=message_id, **more)


def guard(status, name="g", reason=None):
    return HandlerEntry(name=name, priority=1, kind="guard", status=status, reason=reason)


def asking(name, *call_ids):
    calls = [ToolCall(id=call_id, name="read") for call_id in call_ids]
    return AssistantMessage(id=name, tool_calls=tuple(calls))


def answering(name, call_id, took=None, **response):
    response = ToolResponse("done", duration_ns=took and took * MS, parameters={}, **response)
    return ToolMessage(id=name, tool_call_id=call_id, tool_name="read", tool_response=response)


def session_of(path, *appends):
    """Write each of *appends*, messages and their records, and return the timeline."""

    async def write():
        async with SqliteStore(path) as store:
            for messages, records in appends:
                *before, message = messages or (None,)
                request = AppendRequest(
                    message=message, before=tuple(before), records=tuple(records)
                )
                await store.append("s", request)

    asyncio.run(write())
    with open_reader(path) as reader:
        return read_timeline(reader, reader.session("s"))


def entries_of(timeline):
    return [entry for turn in timeline.turns for entry in turn.messages]


def only_call(timeline):
    (call,) = [call for entry in entries_of(timeline) for call in entry.calls]
    return call


def test_a_call_of_an_agent_has_the_duration_of_its_tool(tmp_path):
    # Its answer is appended after that of an earlier, slower call.
    messages = (asking("a", "c"), answering("t", "c", 20))
    records = [judged("c", 100), admitted("t", 900, call_id="c")]
    call = only_call(session_of(tmp_path / "s.db", (messages, records)))

    assert (call.started_ns, call.duration_ns) == (100 * MS, 20 * MS)


def test_a_call_that_waited_for_a_person_starts_with_its_last_judgement(tmp_path):
    messages = (asking("a", "c"), answering("t", "c", 20))
    records = [judged("c", 100), judged("c", 5_000), admitted("t", 5_020, call_id="c")]
    call = only_call(session_of(tmp_path / "s.db", (messages, records)))

    assert (call.started_ns, call.duration_ns) == (5_000 * MS, 20 * MS)


def test_a_call_of_a_host_lasts_until_its_answer(tmp_path):
    messages = (asking("a", "c"), answering("t", "c", 1))
    records = [judged("c", 100, run=""), admitted("t", 700, call_id="c", run="")]
    call = only_call(session_of(tmp_path / "s.db", (messages, records)))

    assert (call.started_ns, call.duration_ns) == (100 * MS, 600 * MS)


def test_without_records_the_start_is_unknown(tmp_path):
    timeline = session_of(tmp_path / "s.db", ((asking("a", "c"), answering("t", "c", 20)), ()))

    call = only_call(timeline)
    assert (call.started_ns, call.duration_ns) == (0, 20 * MS)
    assert [(turn.run_id, turn.number) for turn in timeline.turns] == [("", 0)]


def test_without_a_run_calls_at_the_same_time_are_one_turn(tmp_path):
    def proxied(name, start, end):
        messages = (asking(f"a{name}", name), answering(f"t{name}", name))
        times = [judged(name, start, run="", turn=0)]
        times += [admitted(f"t{name}", end, call_id=name, run="", turn=0)]
        return messages, times

    spans = [("one", 100, 200), ("two", 150, 300), ("three", 250, 260), ("four", 400, 500)]
    timeline = session_of(tmp_path / "s.db", *[proxied(*span) for span in spans])

    names = [[entry.calls[0].id for entry in turn.messages] for turn in timeline.turns]
    assert names == [["one", "two", "three"], ["four"]]


def test_a_refused_result_ran(tmp_path):
    refusal = {"is_error": True, "error_type": "denied"}
    denied = admitted(
        "t", 200, call_id="c", outcome="denied", reason="no", entries=(guard("denied"),)
    )
    messages = (asking("a", "c"), answering("t", "c", 20, **refusal))
    call = only_call(session_of(tmp_path / "s.db", (messages, [judged("c", 100), denied])))

    assert (call.status, call.reason, call.by) == ("refused", "no", "g")
    assert call.executed is not None


def test_an_approved_call_names_its_question(tmp_path):
    asked = judged("c", 100, outcome="asked", reason="May it?", entries=(guard("asked"),))
    messages = (asking("a", "c"), answering("t", "c", 20))
    call = only_call(session_of(tmp_path / "s.db", (messages, [asked])))

    assert (call.status, call.reason, call.by) == ("ok", "May it?", "g")


def test_a_question_that_was_refused_has_the_refusal_as_its_reason(tmp_path):
    asked = judged("c", 100, outcome="asked", reason="May it?", entries=(guard("asked"),))
    refusal = {"is_error": True, "error_type": "denied"}
    messages = (asking("a", "c"), answering("t", "c", 20, **refusal))
    call = only_call(session_of(tmp_path / "s.db", (messages, [asked])))

    assert (call.status, call.reason, call.by) == ("denied", "done", "g")


def test_an_answer_without_its_request_is_a_call(tmp_path):
    timeline = session_of(tmp_path / "s.db", ((answering("t", "c", 20),), ()))

    (entry,) = entries_of(timeline)
    (call,) = entry.calls
    assert (entry.id, call.id, call.tool, call.status) == ("t", "c", "read", "ok")
    assert call.requested is call.answer is None


def test_a_second_answer_stands_for_itself(tmp_path):
    messages = (asking("a", "c"), answering("t1", "c"), answering("t2", "c"))
    entries = entries_of(session_of(tmp_path / "s.db", (messages, ())))

    assert [entry.id for entry in entries] == ["a", "t2"]
    assert entries[0].calls[0].answer.id == "t1"


def test_a_denied_request_of_a_model_has_its_place(tmp_path):
    denied = record(
        "model:call:before", 50, outcome="denied", reason="closed", entries=(guard("denied"),)
    )
    prompt = ((UserMessage(id="u", content="go"),), [admitted("u", 10, turn=0)])
    timeline = session_of(tmp_path / "s.db", prompt, ((), [denied]))

    _, refused = entries_of(timeline)
    assert (refused.message, refused.dispatches[0].reason) == (None, "closed")
    assert [turn.number for turn in timeline.turns] == [0, 1]


def test_changed_requests_stand_at_the_answer_of_the_model(tmp_path):
    changed = record("model:call:before", 50, outcome="changed", entries=(guard("changed"),))
    messages = (AssistantMessage(id="a", content="hello"),)
    (entry,) = entries_of(session_of(tmp_path / "s.db", (messages, [changed, admitted("a", 80)])))

    assert [each.event for each in entry.dispatches] == [
        "model:call:before",
        "message:append:before",
    ]
    assert entry.duration_ns == 30 * MS


def test_a_part_is_bounded_in_bytes(tmp_path):
    large = [UserMessage(id=f"u{place}", content="x" * 3_000_000) for place in range(5)]
    timeline = session_of(tmp_path / "s.db", (large, ()))

    assert [entry.id for entry in entries_of(timeline)] == ["u0", "u1"]
    assert (timeline.end, timeline.has_more) == (2, True)


def test_values_are_read_on_demand_only(tmp_path):
    async def write():
        async with SqliteStore(tmp_path / "s.db") as store:
            await store.append("s", AppendRequest(message=UserMessage(id="u", content="go")))

    asyncio.run(write())
    changed = admitted("u", 10, outcome="changed", entries=(guard("changed"),))
    timeline = session_of(tmp_path / "s.db", ((), [changed]))

    (entry,) = entries_of(timeline)
    assert not entry.dispatches[0].original.has_value


@pytest.mark.full  # A server of PostgreSQL.
def test_it_is_the_same_in_postgres(tmp_path, database):
    denied = judged("c2", 110, outcome="denied", reason="no", entries=(guard("denied"),))
    messages = (asking("a", "c1", "c2"), answering("t1", "c1", 20), answering("t2", "c2", 1))
    records = [admitted("a", 90), judged("c1", 100), denied, admitted("t1", 130, call_id="c1")]

    async def write(store):
        async with store:
            for place, message in enumerate(messages):
                request = AppendRequest(message=message, records=tuple(records) if place else ())
                await store.append("s", request)

    timelines = []
    for store, address in [
        (SqliteStore(tmp_path / "s.db"), tmp_path / "s.db"),
        (PostgresStore(database), database),
    ]:
        asyncio.run(write(store))
        with open_reader(address) as reader:
            session = reader.session("s")
            parts = [read_timeline(reader, session, after, 1) for after in range(3)]
        timelines.append([entries_of(part) for part in parts])

    assert timelines[0] == timelines[1]
    assert [len(entries) for entries in timelines[0]] == [1, 0, 0]


@st.composite
def appends(draw):
    """Return appends of messages whose calls share few ids, each with some records."""
    made, names = [], st.sampled_from(["c1", "c2", "c3"])
    for place in range(draw(st.integers(1, 25))):
        message = draw(
            st.one_of(
                st.builds(lambda place=place: UserMessage(id=f"m{place}", content="go")),
                st.lists(names, max_size=3).map(lambda ids, place=place: asking(f"m{place}", *ids)),
                names.map(lambda call_id, place=place: answering(f"m{place}", call_id)),
            )
        )
        calls = [judged(call_id, place) for call_id in draw(st.lists(names, max_size=2))]
        subjects = draw(st.lists(st.integers(0, 30), max_size=2))
        refused = [
            admitted(f"m{other}", place, outcome="denied", entries=(guard("denied"),))
            for other in subjects
        ]
        made.append(((message,), (*calls, *refused)))
    return made


def seqs_of(part):
    """Return the numbers of all messages that *part* shows, also as answers of calls."""
    shown = [entry.seq for entry in entries_of(part) if entry.message is not None]
    calls = [call for entry in entries_of(part) for call in entry.calls]
    return shown + [call.answer.seq for call in calls if call.answer is not None]


@settings(max_examples=settings.default.max_examples // 2)
@given(appends(), st.integers(1, 8))
def test_any_session_shows_each_message_once(tmp_path_factory, made, limit):
    path = tmp_path_factory.mktemp("any") / "s.db"
    whole = session_of(path, *made)
    parts, after, has_more = [], 0, True
    with open_reader(path) as reader:
        session = reader.session("s")
        while has_more:
            parts.append(read_timeline(reader, session, after, limit))
            after, has_more = parts[-1].end, parts[-1].has_more

    numbers = list(range(1, len(made) + 1))
    assert sorted(seqs_of(whole)) == numbers
    assert sorted([seq for part in parts for seq in seqs_of(part)]) == numbers

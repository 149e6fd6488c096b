"""Calls that were let run by a yes: what is known of them when a host forgets to tell."""

from contextlib import asynccontextmanager

from msgspec.structs import replace

from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.bus.bus import EventBus
from toolbus.events.catalogue import MESSAGE_PERSIST_BEFORE, Ask, Scope
from toolbus.hosts.run.approved_calls import ApprovedCalls
from toolbus.hosts.run.hook_sessions import HookSessions
from toolbus.messages.records import ToolCall
from toolbus.store.memory import MemoryStore
from toolbus.tools.calls.gate import ApprovalRequest


def call_of(number):
    return ToolCall(id=f"c{number}", name="shell", arguments={"n": number})


class Place:
    """The session `h:s` of a host, and a sub-agent's below it."""

    def __init__(self, store):
        self.store, self.sessions = store, HookSessions(store)
        self.approvals, self.bus = StoredApprovals(store=store), EventBus()

    async def calls(self):
        session = await self.sessions.read("h:s")
        return ApprovedCalls(self.store, self.sessions, "h:s", session.approved)

    async def permit(self, number, session_id="h:s"):
        """Return the yes to a call."""
        scope = Scope(session_id=session_id)
        asked = ApprovalRequest(Ask("?"), call_of(number), scope, self.bus)
        pending = await self.approvals.ask(asked)
        question = (await questions_of(self.store, session_id))[-1]
        await answer(self.store, pending.question_id, question.digest, approve=True, by="ann")
        return await self.approvals.ask(asked)

    async def take(self, number, session_id="h:s"):
        permit = await self.permit(number, session_id)
        return await (await self.calls()).take(permit, f"c{number}", session_id)

    async def states(self, session_id="h:s"):
        return [question.state for question in await questions_of(self.store, session_id)]


@asynccontextmanager
async def place():
    async with MemoryStore() as store:
        made = Place(store)
        await made.sessions.bind("h:s", "/work", None)
        yield made


async def test_a_result_ends_its_call_alone():
    async with place() as here:
        assert [await here.take(number) for number in (1, 2)] == [None, None]
        await (await here.calls()).end("c1")
        await (await here.calls()).end("c9")

        assert sorted(await here.states()) == ["done", "taken"]
        assert [*(await here.sessions.read("h:s")).approved] == ["c2"]


async def test_a_session_that_goes_on_leaves_the_others_alone():
    async with place() as here:
        await here.take(1)
        await here.take(2, "h:s/below")
        await (await here.calls()).mark_unknown("h:s/below")

        assert (await here.states(), await here.states("h:s/below")) == (["taken"], ["unknown"])
        await (await here.calls()).mark_unknown(None)
        assert await here.states() == ["unknown"]
        await (await here.calls()).end("c1")
        assert await here.states() == ["done"]


async def test_a_refused_yes_is_no_call_without_an_end():
    async with place() as here:
        permit = await here.permit(1)
        await here.approvals.withdraw("h:s")
        refusal = await (await here.calls()).take(permit, "c1", "h:s")

        assert "withdrawn" in refusal.reason
        assert (await here.sessions.read("h:s")).approved == {}


async def test_the_oldest_of_many_is_unknown():
    async with place() as here:
        for number in range(103):
            await here.take(number)
        session = await here.sessions.read("h:s")

        assert [*session.approved] == [f"c{number}" for number in range(2, 103)]
        assert (await here.states()).count("unknown") == 2


async def test_a_yes_of_nobody_s_question_is_simply_taken():
    async with place() as here:
        assert await (await here.calls()).take(None, "c1", "h:s") is None
        assert (await here.sessions.read("h:s")).approved == {}


async def test_an_event_that_comes_again_is_known_by_what_it_hid():
    async with place() as here:
        here.bus.on(MESSAGE_PERSIST_BEFORE, hide_numbers)
        await (await here.calls()).take(
            await here.permit(1), "c1", "h:s", "event-1", call=call_of(1)
        )

        calls = await here.calls()
        again = [
            await calls.is_retry(call, Ask("?"), event_id)
            for call, event_id in [
                (call_of(1), "event-1"),
                (call_of(1), "event-2"),
                (replace(call_of(2), id="c1"), "event-1"),
                (replace(call_of("[n]"), id="c1"), "event-1"),
            ]
        ]

        assert again == [True, False, False, False]
        assert (await here.sessions.read("h:s")).approved["c1"].live


def hide_numbers(ctx):
    calls = [replace(call, arguments={"n": "[n]"}) for call in ctx.value.tool_calls]
    return replace(ctx.value, tool_calls=tuple(calls))


async def test_without_a_key_an_event_that_comes_again_is_asked_about(monkeypatch):
    monkeypatch.setattr("toolbus.settings.user_key.value_key", lambda **_: None)
    async with place() as here:
        here.bus.on(MESSAGE_PERSIST_BEFORE, hide_numbers)
        await (await here.calls()).take(
            await here.permit(1), "c1", "h:s", "event-1", call=call_of(1)
        )

        assert not await (await here.calls()).is_retry(call_of(1), Ask("?"), "event-1")

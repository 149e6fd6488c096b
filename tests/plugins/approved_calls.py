"""Sessions in a store with calls that a person was asked about, and the answers."""

import asyncio
from typing import NamedTuple

from toolbus import AssistantMessage, Scope, ToolCall
from toolbus.approvals.questions import PREFIX, Question
from toolbus.approvals.records import digest_of
from toolbus.approvals.steps import TERMINAL
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.messages.codec import encode
from toolbus.store import AppendRequest, open_store

DAY = 86_400 * 10**9
FIRST_DAY = 20_400 * DAY
"""The day of the first session: 2025-11-08."""
MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
STATES = {"yes": "done", "no": "denied", "open": "pending"}


class Line(NamedTuple):
    """A command line of a model, and a person's *answer*: "yes", "no", "open", "" for none.

    The person was *asked* about another command if handlers have changed it. The model chooses the
    *id*; "" is a new one.
    """

    command: str
    answer: str = "yes"
    asked: str = ""
    id: str = ""


def record(address, folder, *sessions, first=0):
    """Write *sessions* of lines to the store at *address*, each a day later, begun in *folder*."""

    async def write():
        async with open_store(address) as store:
            await record_in(store, folder, *sessions, first=first)

    asyncio.run(write())


async def record_in(store, folder, *sessions, first=0):
    """Write *sessions* to *store*, as `record` does."""
    for number, lines in enumerate(sessions, first):
        await _write_session(store, str(folder), number, lines)


async def _write_session(store, folder, number, lines):
    name, day = f"s{number}", FIRST_DAY + number * DAY
    scope = Scope(agent_id="a", session_id=name, folder=folder, project=folder)
    for place, line in enumerate(lines):
        call_id = line.id or f"{name}-{place}"
        call = ToolCall(id=call_id, name="shell", arguments={"command": line.command})
        asked = day + place * MINUTE
        judged = DispatchRecord(
            event=TOOL_CALL_BEFORE.name,
            scope=scope,
            subject=call.id,
            call_id=call.id,
            started_ns=asked,
            duration_ns=1,
            outcome="asked" if line.answer else "unchanged",
            original="x",
        )
        message = AssistantMessage(id=f"{name}-m{place}", tool_calls=(call,))
        await store.append(name, AppendRequest(message=message, records=(judged,), written_ns=day))
        if line.answer:
            question = _question(f"q-{name}-{place}", name, call, asked, line)
            await store.swap_state(name, PREFIX + question.id, None, encode(question))


def _question(name, session, call, asked, line):
    answered = {"answered_by": "ann", "answered_from": TERMINAL, "answered_ns": asked + MINUTE}
    arguments = {"command": line.asked or line.command}
    return Question(
        id=name,
        session_id=session,
        call_id=call.id,
        tool=call.name,
        arguments=arguments,
        digest=digest_of(call.name, arguments),
        prompt="the policy requires approval",
        asked_ns=asked,
        expires_ns=asked + HOUR,
        state=STATES[line.answer],
        **(answered if line.answer in {"yes", "no"} else {}),
    )

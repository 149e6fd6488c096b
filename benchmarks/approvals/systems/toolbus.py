"""toolbus: `StoredApprovals` on an SQLite store, and `agent.resume`.

An answer is given to a question by its id and the digest of what was shown; then the agent goes on
from the store, whoever answered, with handlers as they are now. An answer edits nothing: a
handler does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Answer, Outcome, Question, Setup
from toolbus import Agent, Ask, AssistantMessage, Deny, ToolCall, ToolMessage, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.display import channel_text
from toolbus.approvals.records import find_question, questions_of
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.approvals import Question as StoredQuestion
    from toolbus.store.protocol import Store

_DAY_S = 86_400.0
_KNOWN = {"approved": "never ran", "taken": "may have run", "unknown": "may have run"}


class System:
    """An agent whose questions stand in its session's store."""

    def start(self, setup: Setup) -> Outcome:
        """Run until it ends or is pending."""
        return asyncio.run(_start(setup))

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return the questions on which the session waits."""
        return asyncio.run(_questions(setup))

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Answer each question as it was shown, and let the agent go on."""
        return asyncio.run(_resume(setup, answers))

    def known(self, setup: Setup, call_id: str) -> str:
        """Return what the state of the call's question says."""
        (question,) = [one for one in asyncio.run(_stored(setup)) if one.call_id == call_id]
        return {"done": "ran", **_KNOWN}.get(question.state, "never ran")

    def shown(self, setup: Setup, text: str) -> str:
        """Return the rows that every channel shows."""
        asking = setup.__class__(setup.place, ((setup.turns[0][0]._replace(text=text),),))
        self.start(asking)
        (question,) = asyncio.run(_stored(asking))
        return channel_text(question, 10_000).text

    def forge(self, setup: Setup) -> str:
        """Try the command without a terminal, and both command and store against a policy."""
        self.start(setup)
        (question,) = asyncio.run(_stored(setup))
        _run_command(setup.place, ["approvals", "approve", question.id])
        (question,) = asyncio.run(_stored(setup))
        if question.state != "pending":
            return "the command took a yes without a terminal"
        if not asyncio.run(_policy_allows(setup.place, "echo y")):
            return "nothing is known: the policy that allows all denied what it should not"
        for command in (f"toolbus approvals approve {question.id}", "echo y >> sessions.db"):
            if asyncio.run(_policy_allows(setup.place, command)):
                return f"a policy that allows all allowed {command!r}"
        return ""


async def _start(setup: Setup) -> Outcome:
    async with SqliteStore(_path(setup)) as store, _agent(setup, store) as agent:
        return await _ended(agent, store, await agent.run("go"))


async def _questions(setup: Setup) -> tuple[Question, ...]:
    async with SqliteStore(_path(setup)) as store, _agent(setup, store) as agent:
        return await _waiting(agent, store)


async def _resume(setup: Setup, answers: dict[str, Answer]) -> Outcome:
    refusals = []
    async with SqliteStore(_path(setup)) as store:
        for handle, given in answers.items():
            name, digest = handle.split()
            words = {"by": "ann", "reason": given.reason, "clock": _clock(setup)}
            said = await answer(store, name, digest, approve=given.yes, **words)
            refusals += [] if said.status == "accepted" else [said.text]
        edited = next((one for one in answers.values() if one.tool), None)
        async with _agent(setup, store, edited) as agent:
            if not await agent.pending() and not agent.messages:
                return Outcome("refused", "; ".join(refusals))
            ended = await _ended(agent, store, await agent.resume())
    return Outcome("refused", "; ".join(refusals)) if refusals else ended


async def _ended(agent: Agent[Any], store: Store, result: Any) -> Outcome:
    if result.status == "pending":
        return Outcome("pending", "", await _waiting(agent, store))
    return Outcome("ended" if result.status == "ok" else "failed", result.text)


async def _waiting(agent: Agent[Any], store: Store) -> tuple[Question, ...]:
    found = [await find_question(store, name) for name in await agent.pending()]
    return tuple(
        Question(f"{one.id} {one.digest}", one.call_id, one.tool, dict(one.arguments))
        for one in found
        if one is not None and one.state == "pending"
    )


async def _stored(setup: Setup) -> tuple[StoredQuestion, ...]:
    async with SqliteStore(_path(setup)) as store:
        return await questions_of(store, setup.session)


def _agent(setup: Setup, store: Store, edited: Answer | None = None) -> Agent[Any]:
    @tool
    def write(text: str) -> str:
        """Write."""
        return outside.effect(setup, "write", text)

    @tool
    def drop(text: str) -> str:
        """Drop."""
        return outside.effect(setup, "drop", text)

    @tool
    def look(text: str) -> str:
        """Look."""
        return outside.effect(setup, "look", text)

    nested = next((one.text for turn in setup.turns for one in turn if one.tool == "delegate"), "")
    below = Agent(_model(setup, nested), tools=[write]).as_tool("delegate", "Do it.")
    expires_after = setup.lasts_s or _DAY_S
    approvals = StoredApprovals(expires_after=expires_after, clock=_clock(setup))
    agent = Agent(
        _model(setup),
        tools=[write, drop, look, below],
        store=store,
        session_id=setup.session,
        approver=approvals,
    )
    _guard(agent, setup, edited)
    return agent


def _guard(agent: Agent[Any], setup: Setup, edited: Answer | None) -> None:
    """Let guards ask and deny, and a handler rewrite, registered first or last."""

    def ask(ctx: Any) -> Ask | Deny | None:
        if ctx.value.name == setup.denied:
            return Deny("denied by a guard")
        return Ask("write it?") if ctx.value.name == "write" else None

    def rewrite(ctx: Any) -> ToolCall | None:
        name, text = ctx.value.name, setup.rewrite
        if edited is not None:
            name, text = edited.tool, edited.text
        if ctx.value.name != "write" or not text:
            return None
        return ToolCall(id=ctx.value.id, name=name, arguments={"text": text})

    if setup.hook_first:
        agent.bus.on(TOOL_CALL_BEFORE, rewrite)
    agent.bus.guard(TOOL_CALL_BEFORE, ask, name="asks")
    if not setup.hook_first:
        agent.bus.on(TOOL_CALL_BEFORE, rewrite)


def _model(setup: Setup, nested: str = "") -> ScriptedModel:
    def respond(request: Any) -> AssistantMessage | str:
        made = sum(isinstance(one, AssistantMessage) for one in request.messages)
        results = {
            one.tool_call_id: one.tool_response.text
            for one in request.messages
            if isinstance(one, ToolMessage)
        }
        calls, said = outside.next_turn(setup, made, results, nested=nested)
        if not calls:
            return said
        made_calls = [
            ToolCall(
                id=one.id,
                name=one.tool,
                arguments={"prompt" if one.tool == "delegate" else "text": one.text},
            )
            for one in calls
        ]
        return AssistantMessage(tool_calls=tuple(made_calls))

    return ScriptedModel([respond] * 10)


def _clock(setup: Setup) -> Any:
    later_ns = round(setup.clock_s * 1e9)
    return lambda: time.time_ns() + later_ns


def _path(setup: Setup) -> Path:
    return setup.place / "sessions.db"


def _run_command(place: Path, words: list[str]) -> None:
    """Run `toolbus` as a tool of the model would: with input, and without a terminal."""
    store = ["--store", str(place / "sessions.db")]
    subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "toolbus", *words, *store],
        input=b"y\n" * 9,
        capture_output=True,
        check=False,
        start_new_session=True,
        env={**os.environ, "HOME": str(place)},
    )


async def _policy_allows(place: Path, command: str) -> bool:
    """Tell whether a policy without any rule, which allows all, lets a shell run *command*."""
    ran = []

    @tool
    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "done"

    call = ToolCall(name="shell", arguments={"command": command})
    model = ScriptedModel([AssistantMessage(tool_calls=(call,)), "ended"])
    policy = Policy(default="allow", folder=place)
    store = SqliteStore(place / "sessions.db")
    async with (
        store,
        Agent(model, tools=[shell], components=[policy], store=store, session_id="m") as agent,
    ):
        await agent.run("go")
    return bool(ran)

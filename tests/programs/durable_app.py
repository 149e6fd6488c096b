"""An agent for workers that are killed: its tools leave lines in the file DURABLE_EFFECTS.

The prompt says what it does: `work 10` calls `work` ten times, one after the other; `pay` calls
a tool that a person must approve, `mixed 10` calls both in turn; `fail TEXT` calls one that raises
an error with the text, `echo TEXT` one that returns it; `nap 5` calls one that sleeps; at `crash
TEXT`, or with DURABLE_BROKEN, the model fails.
"""

import asyncio
import os

from kill_steps import count_run
from toolbus import Agent, Ask, AssistantMessage, ToolCall, ToolContext, tool
from toolbus.approvals import StoredApprovals
from toolbus.errors import ModelError
from toolbus.events import TOOL_CALL_BEFORE


def note(context):
    """Write the running call to the file; a line is there as a whole or not at all."""
    count_run(os.environ["DURABLE_EFFECTS"], f"{context.scope.session_id} {context.call_id}")


@tool
async def work(number: int, context: ToolContext) -> str:
    note(context)
    await asyncio.sleep(0.001)
    return f"{number} done"


@tool
async def pay(context: ToolContext) -> str:
    note(context)
    return "paid"


@tool
async def fail(text: str) -> str:
    raise RuntimeError(text)


@tool
async def echo(text: str, context: ToolContext) -> str:
    note(context)
    return text


@tool
async def nap(seconds: float, context: ToolContext) -> str:
    note(context)
    naps = f"{os.environ['DURABLE_EFFECTS']}.naps"
    count_run(naps, f"{context.scope.session_id} begins")
    await asyncio.sleep(seconds)
    count_run(naps, f"{context.scope.session_id} ends")
    return "rested"


class Planned:
    """A model that follows the prompt; it remembers nothing, so that any process can go on."""

    name = "planned"

    async def complete(self, request):
        if "DURABLE_BROKEN" in os.environ:
            raise ModelError(self.name, "out of order")
        begun = max(at for at, each in enumerate(request.messages) if each.role == "user")
        word, _, rest = request.messages[begun].text.partition(" ")
        done = sum(each.role == "tool" for each in request.messages[begun:])
        if word == "crash":
            raise ModelError(self.name, rest)
        if word == "mixed" and done < int(rest):
            word = "work" if done % 2 else "pay"
            done, rest = 0, "1"
        if word == "work" and done < int(rest):
            call = ToolCall(name="work", arguments={"number": done})
        elif word == "pay" and not done:
            call = ToolCall(name="pay")
        elif word == "fail" and not done:
            call = ToolCall(name="fail", arguments={"text": rest})
        elif word == "echo" and not done:
            call = ToolCall(name="echo", arguments={"text": rest})
        elif word == "nap" and not done:
            call = ToolCall(name="nap", arguments={"seconds": float(rest)})
        else:
            return AssistantMessage(content=f"{done} results")
        return AssistantMessage(content="let me see", tool_calls=[call])

    async def stream(self, request):
        yield await self.complete(request)


def agent(session_id, store):
    """Return the agent of one session."""
    made = Agent(
        Planned(),
        tools=[work, pay, fail, echo, nap],
        approver=StoredApprovals(),
        max_turns=500,
        session_id=session_id,
        store=store,
    )
    made.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay?") if ctx.value.name == "pay" else None)
    return made

"""The scenarios of `specs/policy_history.md`."""

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbus import Agent, AgentComponent, AssistantMessage, Ask, Deny, ToolCall, ToolResponse, guard, tool
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.settings.values import MisfitError
from toolbus.store.sqlite import SQLiteStore


def rule(name, verdict, **conditions):
    return {"name": name, "verdict": verdict, **conditions}


class Clock:
    """Seconds of the epoch that pass when a test says so."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class World:
    """An agent with tools that count, and a policy; each `run` is a turn of given calls."""

    def __init__(self, *rules, calls=(), tools=(), components=(), approver=None, **options):
        self.ran, self.clock, self.ids = Counter(), Clock(), 0
        self.fails = False
        self.texts = []
        policy = Policy(rule=list(rules), call=list(calls), default="allow", clock=self.clock)
        options = {"session_id": "s", **options}
        self.agent = Agent(
            self.model,
            tools=[self.tool(name) for name in ("fetch", "deploy", "pay", "test", "read")]
            + [self.shell(), *tools],
            components=[*components, policy],
            approver=approver,
            **options,
        )
        self.pending = []

    async def model(self, request):
        if self.pending:
            batch, self.pending = self.pending[0], self.pending[1:]
            return AssistantMessage(tool_calls=batch)
        return "done"

    def tool(self, name):
        async def run(**arguments):
            self.ran[name] += 1
            if self.fails:
                raise RuntimeError("failed")
            return "x" * arguments.get("size", 1)

        schema = {"type": "object", "additionalProperties": True}
        return tool(name=name, description=name, input_schema=schema)(run)

    def shell(self):
        @tool
        def shell(command: str) -> ToolResponse:
            """Run a command."""
            self.ran["shell"] += 1
            return ToolResponse("ran", metadata={"exit_status": int(self.fails)})

        return shell

    async def run(self, *batches):
        """Run one turn a batch of (name, arguments); return what the calls were answered."""
        for batch in batches:
            made = []
            for name, arguments in batch:
                self.ids += 1
                made.append(ToolCall(id=f"c{self.ids}", name=name, arguments=arguments))
            self.pending.append(tuple(made))
        result = await self.agent.run("go")
        return [each.text for each in result.messages if each.role == "tool"]

    async def call(self, name, **arguments):
        """Return whether a single call ran."""
        before = self.ran[name]
        self.texts = await self.run([(name, arguments)])
        return self.ran[name] > before

    async def line(self, command):
        return await self.call("shell", command=command)

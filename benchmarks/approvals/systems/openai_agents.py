"""OpenAI's Agents SDK: `needs_approval` and a `RunState`, as JSON in a file.

https://openai.github.io/openai-agents-python/human_in_the_loop/: the paused state is stored, made
again in another process, each interruption approved or rejected, and the run goes on.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agents import Agent, Runner, RunState, function_tool, set_tracing_disabled
from agents.items import ModelResponse, ToolApprovalItem
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Answer, Outcome, Question, Setup
from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

set_tracing_disabled(disabled=True)


class System:
    """A run state in a file for each session."""

    def start(self, setup: Setup) -> Outcome:
        """Run the agent, and keep its state if it waits."""
        _can(setup)
        return _ended(setup, asyncio.run(Runner.run(_agent(setup), "go")))

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return the interruptions of the stored state."""
        state = asyncio.run(_load(setup))
        return tuple(_question(one) for one in state.get_interruptions())

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Approve or reject in the stored state and go on with it."""
        _can(setup)
        return asyncio.run(_resume(setup, answers))

    def known(self, setup: Setup, call_id: str) -> str:
        """Return what the stored state says of the call."""
        state = asyncio.run(_load(setup))
        waiting = [one.call_id for one in state.get_interruptions()]
        return "waits for approval" if call_id in waiting else "ran"

    def shown(self, setup: Setup, text: str) -> str:
        """Refuse: there is no display."""
        raise CannotError("it has no display of questions: the application writes it")

    def forge(self, setup: Setup) -> str:
        """Refuse: there is nothing that could be forged."""
        raise CannotError(
            "who answers, and what guards the stored state, is the application's code"
        )


def _can(setup: Setup) -> None:
    if setup.rewrite:
        # https://openai.github.io/openai-agents-python/guardrails/#tool-guardrails
        raise CannotError("no hook or guardrail changes a call's arguments: it allows or rejects")
    if setup.lasts_s is not None:
        raise CannotError("an interruption has no end date")


async def _resume(setup: Setup, answers: dict[str, Answer]) -> Outcome:
    agent = _agent(setup)
    state = await _load(setup, agent)
    waiting = state.get_interruptions()
    if not answers and waiting:
        return Outcome("pending", "", tuple(_question(one) for one in waiting))
    items = {_question(one).handle: one for one in waiting}
    for handle, answer in answers.items():
        if answer.tool:
            raise CannotError("neither an answer nor a hook edits a call")
        item = items.get(handle) or ToolApprovalItem(agent, _raw(handle))
        if answer.yes:
            state.approve(item)
        else:
            state.reject(item, rejection_message=answer.reason)
    return _ended(setup, await Runner.run(agent, state))


def _raw(handle: str) -> ResponseFunctionToolCall:
    """Return the call of an interruption that this state does not hold."""
    return ResponseFunctionToolCall.model_validate_json(handle)


def _agent(setup: Setup) -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def write(text: str) -> str:
        return outside.effect(setup, "write", text)

    @function_tool
    async def look(text: str) -> str:
        return outside.effect(setup, "look", text)

    nested = next((one.text for turn in setup.turns for one in turn if one.tool == "delegate"), "")
    # https://openai.github.io/openai-agents-python/tools/#agents-as-tools
    child = Agent(name="child", model=_Scripted(setup, nested), tools=[write])
    delegate = child.as_tool("delegate", "Let a sub-agent do it.")
    return Agent(name="parent", model=_Scripted(setup), tools=[write, look, delegate])


class _Scripted(Model):
    def __init__(self, setup: Setup, nested: str = "") -> None:
        self._setup, self._nested = setup, nested

    async def get_response(self, *arguments: Any, **options: Any) -> ModelResponse:
        history = options["input"] if "input" in options else arguments[1]
        items = [] if isinstance(history, str) else [dict(one) for one in history]
        results = {
            one["call_id"]: str(one["output"])
            for one in items
            if one.get("type") == "function_call_output"
        }
        # A turn is a run of calls, until their results.
        kinds = [one.get("type") == "function_call" for one in items]
        made = sum(
            kind and not before for kind, before in zip(kinds, [False, *kinds], strict=False)
        )
        calls, said = outside.next_turn(self._setup, made, results, nested=self._nested)
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                call_id=one.id,
                name=one.tool,
                # The sub-agent's tool takes "input".
                arguments=json.dumps({"input" if one.tool == "delegate" else "text": one.text}),
            )
            for one in calls
        ]
        if said:
            text = ResponseOutputText(type="output_text", text=said, annotations=[])
            output.append(
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            )
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_arguments: Any, **_options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _file(setup: Setup) -> Path:
    return setup.place / f"state-{setup.session}.json"


async def _load(setup: Setup, agent: Agent[Any] | None = None) -> Any:
    text = _file(setup).read_text("utf-8")
    return await RunState.from_string(agent or _agent(setup), text)


def _question(item: ToolApprovalItem) -> Question:
    # The answer is given to the item itself, so that its handle is all of it.
    handle = item.raw_item.model_dump_json(include={"arguments", "call_id", "name", "type"})
    arguments = json.loads(item.arguments or "{}")
    return Question(handle, item.call_id or "", item.name or "", arguments)


def _ended(setup: Setup, result: Any) -> Outcome:
    _file(setup).write_text(result.to_state().to_string(), "utf-8")
    if result.interruptions:
        return Outcome("pending", "", tuple(_question(one) for one in result.interruptions))
    return Outcome("ended", str(result.final_output))

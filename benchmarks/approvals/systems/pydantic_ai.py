"""Pydantic AI: deferred tools, with the message history in a file.

https://ai.pydantic.dev/deferred-tools: a run ends with the requests; a new run gets the stored
message history and the results. Nothing but an in-memory store of conversations comes with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import ToolApproved

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Answer, Outcome, Question, Setup
from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage


class System:
    """Deferred tools and a file for each session."""

    def start(self, setup: Setup) -> Outcome:
        """Run the agent, and keep its messages."""
        can(setup)
        result = make_agent(setup).run_sync("go")
        return _ended(setup, result)

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return the calls of the last response that have no result."""
        stored = json.loads(_file(setup).read_text("utf-8"))
        return tuple(Question(*one) for one in stored["questions"])

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Run again with the stored messages and the results."""
        stored = json.loads(_file(setup).read_text("utf-8"))
        messages = ModelMessagesTypeAdapter.validate_python(stored["messages"])
        if not answers and stored["questions"]:
            return Outcome("pending", "", self.questions(setup))
        if {one.handle for one in self.questions(setup)} > answers.keys():
            raise CannotError("a run goes on when all of its questions are answered")
        given = DeferredToolResults(approvals={key: decision(one) for key, one in answers.items()})
        result = make_agent(setup).run_sync(message_history=messages, deferred_tool_results=given)
        return _ended(setup, result)

    def known(self, setup: Setup, call_id: str) -> str:
        """Return what stands in the messages after the call."""
        stored = json.loads(_file(setup).read_text("utf-8"))
        results = [
            part
            for message in stored["messages"]
            for part in message["parts"]
            if part["part_kind"] == "tool-return" and part["tool_call_id"] == call_id
        ]
        return "ran" if results else "a call without a result"

    def shown(self, setup: Setup, text: str) -> str:
        """Refuse: there is no display."""
        raise CannotError("it has no display of questions: the application writes it")

    def forge(self, setup: Setup) -> str:
        """Refuse: there is nothing that could be forged."""
        raise CannotError("who answers, and what guards the file, is the application's code")


def can(setup: Setup) -> None:
    """Refuse what it has no words for."""
    if setup.lasts_s is not None:
        raise CannotError("a deferred request has no end date")
    if any(one.tool == "delegate" for turn in setup.turns for one in turn):
        # https://github.com/pydantic/pydantic-ai/issues/4302, open: a tool's run ends with the
        # requests of the sub-agent as its result; to ask the parent's caller is own code.
        raise CannotError("nested requests are the application's code (its issue 4302)")


def make_agent(setup: Setup, capabilities: tuple[Any, ...] = (), step: Any = None) -> Agent[Any]:
    """Return the agent of *setup*; *step* marks what has an effect, for a durable engine."""
    step = step or (lambda function: function)
    agent: Agent[Any] = Agent(
        FunctionModel(_model(setup)),
        name="parent",
        output_type=[str, DeferredToolRequests],
        capabilities=[*_hooks(setup), *capabilities],
    )

    @agent.tool_plain(requires_approval=True)
    @step
    async def write(text: str) -> str:
        return outside.effect(setup, "write", text)

    @agent.tool_plain
    @step
    async def drop(text: str) -> str:
        return outside.effect(setup, "drop", text)

    @agent.tool_plain
    @step
    async def look(text: str) -> str:
        return outside.effect(setup, "look", text)

    return agent


def decision(answer: Answer) -> Any:
    """Return an answer in its words."""
    if answer.tool:
        raise CannotError("an approval or a hook may change the arguments, not the tool")
    if not answer.yes:
        return ToolDenied(answer.reason)
    return ToolApproved(override_args={"text": answer.text}) if answer.text else ToolApproved()


def _hooks(setup: Setup) -> list[Hooks[Any]]:
    """Return the hooks that may change or skip a call: at its validation, or before it executes."""
    # https://ai.pydantic.dev/hooks/. Tried by hand as well: `after_tool_validate`, an approval that
    # the tool raises, and an `ApprovalRequiredToolset`; the request has the model's arguments.
    hooks: Hooks[Any] = Hooks()
    place = hooks.on.before_tool_validate if setup.hook_first else hooks.on.before_tool_execute

    @place
    async def rewrite(_ctx: Any, *, call: ToolCallPart, tool_def: Any, args: Any) -> Any:
        return {**args, "text": setup.rewrite} if setup.rewrite else args

    return [hooks]


def _model(setup: Setup) -> Any:
    def respond(messages: list[ModelMessage], _info: object) -> ModelResponse:
        made = sum(isinstance(one, ModelResponse) for one in messages)
        results = {
            part.tool_call_id: str(part.content)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        calls, said = outside.next_turn(setup, made, results)
        if not calls:
            return ModelResponse([TextPart(said)])
        return ModelResponse([ToolCallPart(one.tool, {"text": one.text}, one.id) for one in calls])

    return respond


def asked(output: Any) -> tuple[Question, ...]:
    """Return the questions of a run's output."""
    if not isinstance(output, DeferredToolRequests):
        return ()
    return tuple(
        Question(one.tool_call_id, one.tool_call_id, one.tool_name, one.args_as_dict())
        for one in output.approvals
    )


def _file(setup: Setup) -> Path:
    return setup.place / f"messages-{setup.session}.json"


def _ended(setup: Setup, result: Any) -> Outcome:
    questions = asked(result.output)
    messages = json.loads(result.all_messages_json())
    stored = {"messages": messages, "questions": [list(one) for one in questions]}
    _file(setup).write_text(json.dumps(stored), "utf-8")
    if questions:
        return Outcome("pending", "", questions)
    return Outcome("ended", str(result.output))

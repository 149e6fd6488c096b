"""LangChain: `HumanInTheLoopMiddleware`, with one interrupt for all calls of a turn.

https://docs.langchain.com/oss/python/langchain/human-in-the-loop: the middleware's default mode.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Answer, Question, Setup
from benchmarks.approvals.systems import langgraph
from benchmarks.harness import CannotError


class System(langgraph.System):
    """An agent with the middleware, and a thread for each session."""

    mode = "batched"

    def graph(self, setup: Setup, saver: Any, nested: str = "") -> Any:
        """Return the agent; its hook and guard are listed before the middleware or after it."""
        asks = HumanInTheLoopMiddleware({"write": True}, interrupt_mode=self.mode)
        return create_agent(
            langgraph.Scripted(setup=setup, nested=nested),
            [*langgraph.plain_tools(setup), _writing(setup), self._delegating(setup)],
            middleware=self.listed(setup, asks),
            checkpointer=saver,
        )

    def listed(self, setup: Setup, asks: Any) -> list[Any]:
        """Return the middleware in its order: what is listed first wraps the others."""
        if setup.hook_first and setup.rewrite:
            # This mode asks after the model, where the middleware that is listed last runs first.
            return [asks, Earlier(setup)]
        return [Hook(setup), asks] if setup.hook_first else [asks, Hook(setup)]

    def asked(self, state: Any) -> tuple[Question, ...]:
        """Return the actions of the interrupt; it names no ids of calls, but keeps their order."""
        questions = []
        for one in state.interrupts:
            ids = [call["id"] for call in _last_calls(state) if call["name"] == "write"]
            ids += [""] * len(one.value["action_requests"])
            for at, action in enumerate(one.value["action_requests"]):
                handle = f"{one.id}/{at}/{len(one.value['action_requests'])}"
                questions.append(Question(handle, ids[at], action["name"], action["args"]))
        return tuple(questions)

    def decisions(self, answers: dict[str, Answer]) -> dict[str, Any]:
        """Return the decisions of the interrupt, in the order of its actions."""
        handle, _, count = next(iter(sorted(answers))).split("/")
        if len(answers) < int(count):
            raise CannotError("one interrupt takes the decisions on all calls of the turn")
        listed = [decision(answers[one]) for one in sorted(answers)]
        return {handle: {"decisions": listed}}

    def shown(self, setup: Setup, text: str) -> str:
        """Return the description that is made for the reviewer."""
        asking = setup.__class__(setup.place, ((setup.turns[0][0]._replace(text=text),),))
        self.start(asking)
        with self.opened(asking) as (graph, config):
            (one,) = graph.get_state(config).interrupts
        return str(one.value["action_requests"][0]["description"])


class Hook(AgentMiddleware):
    """Rewrites calls of `write`, and denies the tool that is denied."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._setup = setup

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Deny, or pass on what was rewritten."""
        call = request.tool_call
        if call["name"] == self._setup.denied:
            return ToolMessage("denied by a guard", tool_call_id=call["id"], status="error")
        return handler(langgraph.changed(self._setup, request))


class Earlier(AgentMiddleware):
    """Rewrites calls of `write` as soon as the model has made them."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._setup = setup

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Return the model's message with other arguments."""
        message = state["messages"][-1]
        calls = [
            {**one, "args": {"text": self._setup.rewrite}} if one["name"] == "write" else one
            for one in message.tool_calls
        ]
        return {"messages": [message.model_copy(update={"tool_calls": calls})]}


def decision(answer: Answer) -> dict[str, Any]:
    """Return an answer in its words."""
    if answer.tool:
        edited = {"name": answer.tool, "args": {"text": answer.text}}
        return {"type": "edit", "edited_action": edited}
    if answer.yes:
        return {"type": "approve"}
    return {"type": "reject", "message": answer.reason}


def _writing(setup: Setup) -> Any:
    @tool
    def write(text: str) -> str:
        """Write."""
        return outside.effect(setup, "write", text)

    return write


def _last_calls(state: Any) -> list[Any]:
    messages = state.values.get("messages", [])
    return messages[-1].tool_calls if messages and hasattr(messages[-1], "tool_calls") else []

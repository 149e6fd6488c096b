"""LangChain: `HumanInTheLoopMiddleware` with an interrupt for each call, which it recommends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware

from benchmarks.approvals.protocol import Answer, Question, Setup
from benchmarks.approvals.systems import langchain

if TYPE_CHECKING:
    from collections.abc import Mapping


class System(langchain.System):
    """An agent with the middleware in its mode `per_call`."""

    mode = "per_call"
    edited: Answer | None = None

    def listed(self, setup: Setup, asks: Any) -> list[Any]:
        """Return the middleware in its order; what edits a call comes after the approval."""
        edits = [] if self.edited is None else [Editor(self.edited)]
        hook = langchain.Hook(setup)
        return [hook, asks, *edits] if setup.hook_first else [asks, *edits, hook]

    def asked(self, state: Any) -> tuple[Question, ...]:
        """Return the interrupts, one for each call."""
        values = [(one.id, one.value) for one in state.interrupts]
        return tuple(
            Question(key, one["tool_call_id"], one["name"], one["args"]) for key, one in values
        )

    def decisions(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """Return a decision for each interrupt; one cannot name another tool, a hook can."""
        self.edited = next((one for one in answers.values() if one.tool), None)
        plain = {key: one._replace(tool="", text="") for key, one in answers.items()}
        return {key: langchain.decision(one) for key, one in plain.items()}

    def shown(self, setup: Setup, text: str) -> str:
        """Return the description that is made for the reviewer."""
        asking = setup.__class__(setup.place, ((setup.turns[0][0]._replace(text=text),),))
        self.start(asking)
        with self.opened(asking) as (graph, config):
            (one,) = graph.get_state(config).interrupts
        return str(one.value["description"])


class Editor(AgentMiddleware):
    """Makes another call of `write`, as an answer in the default mode can."""

    def __init__(self, edited: Answer) -> None:
        super().__init__()
        self._edited = edited

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Pass on the call of the other tool."""
        if request.tool_call["name"] != "write":
            return handler(request)
        name, text = self._edited.tool, self._edited.text
        call = {**request.tool_call, "name": name, "args": {"text": text}}
        other = next(one for one in request.runtime.tools if one.name == name)
        return handler(request.override(tool_call=call, tool=other))

"""LangChain: `HumanInTheLoopMiddleware` with an interrupt for each call, which it recommends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.approvals.protocol import Answer, Question, Setup
from benchmarks.approvals.systems import langchain
from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from collections.abc import Mapping


class System(langchain.System):
    """An agent with the middleware in its mode `per_call`."""

    mode = "per_call"

    def asked(self, state: Any) -> tuple[Question, ...]:
        """Return the interrupts, one for each call."""
        values = [(one.id, one.value) for one in state.interrupts]
        return tuple(
            Question(key, one["tool_call_id"], one["name"], one["args"]) for key, one in values
        )

    def decisions(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """Return a decision for each interrupt."""
        if any(one.tool for one in answers.values()):
            raise CannotError("an edit keeps the tool: its schema pins the name")
        return {key: langchain.decision(one) for key, one in answers.items()}

    def shown(self, setup: Setup, text: str) -> str:
        """Return the description that is made for the reviewer."""
        asking = setup.__class__(setup.place, ((setup.turns[0][0]._replace(text=text),),))
        self.start(asking)
        with self.opened(asking) as (graph, config):
            (one,) = graph.get_state(config).interrupts
        return str(one.value["description"])

"""LangGraph: `interrupt` in a tool, with the SQLite checkpointer.

https://docs.langchain.com/oss/python/langgraph/interrupts: a tool asks by `interrupt`, the graph is
saved, and `Command(resume=...)` goes on by the interrupt's id. A task for each call, as the
prebuilt agents have it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallWithContext
from langgraph.types import Command, Send, interrupt

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Answer, Outcome, Question, Setup
from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.messages import BaseMessage


class System:
    """A graph whose tool asks, and a thread for each session."""

    def start(self, setup: Setup) -> Outcome:
        """Run the graph until it ends or is interrupted."""
        self.can(setup)
        return self._run(setup, {"messages": [("user", "go")]})

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return the interrupts of the thread's state."""
        with self.opened(setup) as (graph, config):
            return self.asked(graph.get_state(config))

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Resume the interrupts, or go on where a process ended."""
        self.can(setup)
        if not answers:
            waiting = self.questions(setup)
            return Outcome("pending", "", waiting) if waiting else self._run(setup, None)
        return self._run(setup, Command(resume=self.decisions(answers)))

    def known(self, setup: Setup, call_id: str) -> str:
        """Return what the thread's state says of the call."""
        with self.opened(setup) as (graph, config):
            state = graph.get_state(config)
        if any(getattr(one, "tool_call_id", "") == call_id for one in state.values["messages"]):
            return "ran"
        waits = any(task.interrupts for task in state.tasks)
        return f"next is {', '.join(state.next)}, {'waits' if waits else 'does not wait'}"

    def shown(self, setup: Setup, text: str) -> str:
        """Refuse: there is no display."""
        raise CannotError("it has no display of questions: the application writes it")

    def forge(self, setup: Setup) -> str:
        """Refuse: there is nothing that could be forged."""
        raise CannotError("who resumes, and what guards the database, is the application's code")

    def can(self, setup: Setup) -> None:
        """Refuse what it has no words for."""
        if setup.lasts_s is not None:
            raise CannotError("an interrupt waits without an end")

    def decisions(self, answers: dict[str, Answer]) -> dict[str, Any]:
        """Return what each interrupt is resumed with, by its id."""
        if any(one.tool for one in answers.values()):
            raise CannotError("what an answer means, and a guard, are the application's code")
        return {key: {"yes": one.yes, "reason": one.reason} for key, one in answers.items()}

    def asked(self, state: Any) -> tuple[Question, ...]:
        """Return the questions of a state."""
        return tuple(
            Question(one.id, one.value["id"], one.value["tool"], {"text": one.value["text"]})
            for one in state.interrupts
        )

    def graph(self, setup: Setup, saver: Any, nested: str = "") -> Any:
        """Return a model, a task for each of its calls, and back to the model."""

        def respond(state: Any) -> Any:
            return {"messages": [Scripted(setup=setup, nested=nested).invoke(state["messages"])]}

        def spread(state: Any) -> Any:
            calls = state["messages"][-1].tool_calls
            return [Send("tools", _with_context(call, state)) for call in calls] or "__end__"

        tools = [*plain_tools(setup), _asking(setup), self._delegating(setup)]
        node = ToolNode(tools, wrap_tool_call=lambda call, run: run(changed(setup, call)))
        graph = StateGraph(MessagesState).add_node("model", respond).add_node("tools", node)
        graph.add_edge(START, "model").add_edge("tools", "model")
        graph.add_conditional_edges("model", spread, ["tools", "__end__"])
        return graph.compile(checkpointer=saver)

    @contextmanager
    def opened(self, setup: Setup) -> Iterator[tuple[Any, Any]]:
        """Give the graph on the checkpoints, and the thread's configuration."""
        with SqliteSaver.from_conn_string(str(setup.place / "checkpoints.db")) as saver:
            yield self.graph(setup, saver), {"configurable": {"thread_id": setup.session}}

    def _run(self, setup: Setup, given: Any) -> Outcome:
        with self.opened(setup) as (graph, config):
            # The most durable mode: https://docs.langchain.com/oss/python/langgraph/persistence.
            graph.invoke(given, config, durability="sync")
            state = graph.get_state(config)
        if waiting := self.asked(state):
            return Outcome("pending", "", waiting)
        return Outcome("ended", state.values["messages"][-1].text)

    def _delegating(self, setup: Setup) -> Any:
        @tool
        def delegate(text: str) -> str:
            """Let a sub-agent do it."""
            # A graph without a checkpointer of its own takes the one of the graph that calls it.
            child = self.graph(setup, None, text)
            return str(child.invoke({"messages": [("user", text)]})["messages"][-1].text)

        return delegate


def _with_context(call: Any, state: Any) -> Any:
    return ToolCallWithContext(
        {"__type": "tool_call_with_context", "tool_call": call, "state": state}
    )


def plain_tools(setup: Setup) -> list[Any]:
    """Return the tools that do not ask."""

    @tool
    def look(text: str) -> str:
        """Look."""
        return outside.effect(setup, "look", text)

    @tool
    def drop(text: str) -> str:
        """Drop."""
        return outside.effect(setup, "drop", text)

    return [look, drop]


def _asking(setup: Setup) -> Any:
    @tool
    def write(text: str, runtime: ToolRuntime) -> str:
        """Write, if a person says yes."""
        answer = interrupt({"id": runtime.tool_call_id, "tool": "write", "text": text})
        if not answer["yes"]:
            return f"refused: {answer['reason']}"
        return outside.effect(setup, "write", text)

    return write


def changed(setup: Setup, request: Any) -> Any:
    """Return a request as the hook of *setup* rewrites it."""
    if not setup.rewrite or request.tool_call["name"] != "write":
        return request
    return request.override(tool_call={**request.tool_call, "args": {"text": setup.rewrite}})


class Scripted(BaseChatModel):
    """The model of a setup, or of its sub-agent."""

    setup: Any
    nested: str = ""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_tools: Any, **_options: Any) -> Any:
        """Return itself: the script knows the tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **_options: Any) -> ChatResult:
        made = sum(isinstance(one, AIMessage) for one in messages)
        results = {
            one.tool_call_id: one.text if isinstance(one.content, str) else json.dumps(one.content)
            for one in messages
            if isinstance(one, ToolMessage)
        }
        calls, said = outside.next_turn(self.setup, made, results, nested=self.nested)
        answer = AIMessage(
            said, tool_calls=[{"name": c.tool, "args": {"text": c.text}, "id": c.id} for c in calls]
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])

"""The facts about each framework: its package, and what a component can do there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.settings.hints import hint

Ability: TypeAlias = Literal[
    "observe",
    "rewrite_arguments",
    "deny",
    "answer",
    "ask",
    "retry",
    "replace_result",
    "replace_failure",
    "change_tools",
    "add_tools",
    "block_prompt",
    "rewrite_prompt",
    "replace_answer",
    "model_calls",
    "answer_errors",
    "unknown_tools",
    "invalid_arguments",
    "sub_agents",
    "handoffs",
    "hosted_tools",
    "clean_traces",
]
"""An action that a framework allows to a component, or a kind of calls that reaches one.

With `ask` the framework itself pauses and asks its user; without it a question is stored. With
`clean_traces` callbacks and traces of the framework hold nothing but what the model reads.
"""

Delivery: TypeAlias = Literal["yes", "wrapped", "outside", "no"]
"""Whether an ability works: always; for wrapped agents and tools; not at all, because it happens
in another program; or not at all, although it happens here."""

WAYS_ROUND: Mapping[Ability, str] = {
    "rewrite_arguments": "calls run with the model's own arguments",
    "deny": "calls cannot be denied",
    "answer": "a handler's answer in place of a tool's is ignored",
    "ask": "calls that require approval are denied; the question waits in `toolbus approvals`",
    "retry": "failed calls are not repeated",
    "replace_result": "the model reads the original results of tools",
    "replace_failure": "the model reads the original output of failed tools",
    "change_tools": "the model sees the tools' own names, texts and parameters",
    "add_tools": "the tools of components are not offered",
    "block_prompt": "prompts cannot be blocked",
    "rewrite_prompt": "the model reads the original prompts",
    "replace_answer": "the user reads the model's original answers",
    "model_calls": "handlers of requests to the model do not run",
    "answer_errors": "handlers of failed runs do not run",
    "unknown_tools": "calls of unknown tools are answered by the framework, unseen",
    "invalid_arguments": "calls with invalid arguments are answered by the framework, unseen",
    "sub_agents": "the calls of sub-agents are not seen",
    "handoffs": "the calls of agents after a handoff are not seen",
    "hosted_tools": "tools that the provider runs are not seen",
    "clean_traces": "callbacks and traces of the framework hold the original texts",
    "observe": "events are not seen",
}
"""The effect of each missing ability."""

ALWAYS: tuple[Ability, ...] = get_args(Ability)


class Framework(Struct, frozen=True, kw_only=True):
    """The facts about a framework.

    Args:
        name: the name of our module for it, and of its extra with "-" for "_".
        title: the vendor's name.
        package: the name of its package, as it is installed.
        versions: the oldest and the newest version that were tested.
        abilities: by ability its delivery; a missing ability is "yes".
        notes: further sentences about calls or texts that pass by every component.
    """

    name: str
    title: str
    package: str
    versions: tuple[str, str]
    abilities: Mapping[Ability, Delivery] = {}
    notes: tuple[str, ...] = ()

    @property
    def extra(self) -> str:
        """The extra of toolbus that installs the package."""
        return self.name.replace("_", "-")

    @property
    def delivers(self) -> dict[Ability, Delivery]:
        """The delivery of each ability."""
        return {ability: self.abilities.get(ability, "yes") for ability in ALWAYS}

    @property
    def unseen_texts(self) -> str:
        """The texts of its models out of sight of components."""
        if self.delivers["block_prompt"] == "outside":
            return "prompts, instructions and answers of the clients, and results of other servers"
        hosted = " and results of the provider's own tools" * (
            self.delivers["hosted_tools"] == "no"
        )
        return f"instructions, messages of runs without the bridge{hosted}"


FRAMEWORKS: Mapping[str, Framework] = {
    framework.name: framework
    for framework in (
        Framework(
            name="pydantic_ai",
            title="Pydantic AI",
            package="pydantic-ai-slim",
            versions=("2.62.0", "2.68.0"),
            abilities={
                "answer_errors": "no",
                "sub_agents": "wrapped",
                "handoffs": "wrapped",
                "hosted_tools": "no",
            },
            notes=(
                "the framework answers calls of tools that are not loaded yet, unseen",
                "the framework answers invalid calls of tools that require approval, unseen",
                "arguments with integers of more than 64 bits are refused as invalid",
                "realtime sessions show their calls, but no prompts, answers or unknown tools",
                "the stream of events shows results of external tools as they came",
                "`RunContext.prompt` has the prompt as it was given",
                "parameters with an alias are judged by their name in the function",
                "`ToolReturn.metadata`, which no model reads, passes as it is, into traces too",
                "a streamed answer arrives whole if a handler may change or replace it",
                "pieces of answers are not seen",
                "requests to the model show neither instructions of the agent nor settings",
                "handlers of requests to the model change texts only; other changes end the run",
                "a handler that answers a request in place of the model answers with text only",
                "with two bridges in one run only the inner one sees calls of unknown tools",
            ),
        ),
        Framework(
            name="openai_agents",
            title="OpenAI Agents SDK",
            package="openai-agents",
            versions=("0.21.0", "0.24.0"),
            abilities={
                "model_calls": "no",
                "answer_errors": "no",
                "sub_agents": "wrapped",
                "hosted_tools": "no",
            },
            notes=(
                "computer, patch, shell and custom tools are refused, unless `partial=True`",
                "a bridge inside a tool of another bridge is refused",
                "a call that the framework skips, such as a second handoff, has no end",
                "reasoning is not seen",
                "`Runner.run` in a tool shows no prompt or answer of a model that is only named",
            ),
        ),
        Framework(
            name="langchain",
            title="LangChain",
            package="langchain",
            versions=("1.3.0", "1.5.2"),
            abilities={
                "answer_errors": "no",
                "handoffs": "wrapped",
                "hosted_tools": "no",
            },
            notes=(
                "a call of a sub-agent that is not wrapped is denied if a handler rewrites it",
                "unknown tools, prompts and answers of agents without the middleware are not seen",
                "a sub-agent in a thread of its own is not seen unless it is wrapped",
                "a call that other middleware answers is not seen",
                "handlers of requests to the model change neither the model nor its settings",
                "the first checkpoint and the trace of a run hold the original prompt",
                "the trace of a request to the model holds its original answer",
                "texts that a tool streams, and other messages of its `Command`, are not seen",
                "a tool that returns several messages for one call fails",
                "artifacts are not seen; that of a changed result is removed",
                "callbacks that a tool itself was made with get its original result",
                "calls whose arguments are not JSON, which LangChain drops, are not seen",
                "structured answers and reasoning are not seen",
            ),
        ),
        Framework(
            name="strands",
            title="Strands Agents",
            package="strands-agents",
            versions=("1.62.0", "1.62.0"),
            abilities={
                "model_calls": "no",
                "answer_errors": "no",
                "sub_agents": "wrapped",
                "hosted_tools": "no",
            },
            notes=(
                "the span of a run holds the prompt as it was given, before any hook",
                "the framework answers calls whose name is malformed, unseen",
                "`agent.structured_output()`, which is deprecated, shows its prompt to no hook",
                "a call that another hook cancels is not seen",
                "events of a tool or sub-agent arrive when its call ends, if no handler changes it",
                "prompts that a program puts into `agent.messages` itself are not seen",
                "an answer that a hook puts in the place of the model's is not seen",
            ),
        ),
        Framework(
            name="google_adk",
            title="Google ADK",
            package="google-adk",
            versions=("2.11.0", "2.13.0"),
            abilities={"model_calls": "no", "answer_errors": "no", "hosted_tools": "no"},
            notes=(
                "a Runner that a tool makes has no plugins: give it the bridge, too",
                "an AgentTool with include_plugins=False is not judged inside",
                "code that an agent's code executor runs is not seen",
                "prompts and speech of live runs are not seen; calls, results and texts are",
                "thoughts of the model are not seen",
                "spans of model calls hold the model's own answer if they capture messages",
                "agents that give tasks (mode='task') are refused",
                "tools that stream in live runs are refused",
                "the program's callbacks for failed tools are not called: a failure is a result",
                "the state of `output_key` has the model's own answer if that has a schema",
            ),
        ),
        Framework(
            name="fastmcp",
            title="FastMCP",
            package="fastmcp",
            versions=("4.1.0", "4.2.3"),
            abilities={
                "block_prompt": "outside",
                "rewrite_prompt": "outside",
                "replace_answer": "outside",
                "model_calls": "outside",
                "answer_errors": "outside",
                "sub_agents": "outside",
                "handoffs": "outside",
                "hosted_tools": "outside",
            },
            notes=(
                "a client of MCP 2026-07-28 shows no form: its questions go to the approver",
                "logs, progress and forms that a tool sends while it runs reach the client unseen",
                "the `_meta` of results reaches the client's program unseen",
                "if a handler changes the form that a tool returns, the call fails",
                "results of background tasks are refused if a handler observes messages",
                "the newest version of a tool judges arguments; a hashed name is an unknown tool",
                "a request for a resource or a prompt is denied or not, never rewritten",
                "failures of resources and prompts, and completions, are not seen",
                "the server's instructions, and its lists of resources and prompts, are not seen",
                "log and spans hold failures of resources, prompts, the protocol, mounted servers",
            ),
        ),
        Framework(
            name="agent_hooks",
            title="agent-hooks",
            package="agent-hooks-sdk",
            versions=("0.1.0b3", "0.1.0b3"),
            abilities={
                "retry": "no",
                "change_tools": "no",
                "add_tools": "no",
                "answer_errors": "no",
                "sub_agents": "wrapped",
                "handoffs": "outside",
                "hosted_tools": "no",
                "clean_traces": "no",
            },
            notes=(
                "a sub-agent is judged where the host gives it the same interceptor",
                "in a host that emits no model calls, calls of unknown tools pass by",
                "agent-framework keeps original failures, which only their interceptor replaces",
            ),
        ),
    )
}
"""The frameworks by the names of their modules."""

EXTRAS = tuple([framework.extra for framework in FRAMEWORKS.values()])
"""The names of the frameworks' extras, and in commands."""


def framework(name: str) -> Framework:
    """Return the framework *name*; raises `RegistrationError` for an unknown name."""
    known = FRAMEWORKS.get(name)
    if known is None:
        raise RegistrationError(f"framework {name!r}", f"there is none{hint(name, FRAMEWORKS)}")
    return known

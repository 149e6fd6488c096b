"""The bridge into the OpenAI Agents SDK, which runs agents in the place of its `Runner`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.settings.extras import needs_extra

try:
    from agents import Agent, Model, RunConfig, Runner, RunState
except ImportError as error:
    msg = needs_extra("the bridge to the OpenAI Agents SDK needs its library", "openai-agents")
    raise ImportError(msg, name="agents") from error

from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.openai_agents.judged_calls import CURRENT
from toolbus.bridges.openai_agents.judged_runs import JudgedModel, JudgedProvider, JudgedRun
from toolbus.bridges.openai_agents.wrapped_agents import wrap
from toolbus.bridges.threads import run_for_thread
from toolbus.errors import RegistrationError
from toolbus.models.answers import given_call
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from agents import RunResult, RunResultStreaming

    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.messages.records import ToolCall

A = TypeVar("A", bound="Agent[Any]")


class OpenAIAgentsBridge(FrameworkBridge):
    """The components of toolbus in the runs of the OpenAI Agents SDK.

        bridge = OpenAIAgentsBridge([RedactSecrets(), Policy.read("policy.toml")], store=store)
        result = await bridge.run(agent, "Who is on call?", session=session)

    `run`, `run_streamed` and `run_sync` take the arguments of `Runner`. They put prompt and answer
    on the bus, and wrap the agent with all agents that it hands over to or has as tools. An agent
    that the function of a tool runs is wrapped there: `Runner.run(bridge.wrap(agent), …)`. The
    session of a run has the id of the framework's.

    A guard that asks pauses the run, as `needs_approval` does, unless there is an *approver*. The
    options are those of `BridgeHost`.
    """

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        super().__init__("openai_agents", components, **options)
        self.partial = options.get("partial", False)
        self._ends: set[asyncio.Task[None]] = set()

    def wrap(self, agent: A) -> A:
        """Return *agent*, which from now on runs only in a run of a bridge, or in a tool of one.

        The agent is changed, not copied, because `Agent.as_tool` and `handoff` keep a reference to
        it; its clones are wrapped too.
        """
        if not isinstance(agent, Agent):
            raise RegistrationError(f"agent {agent!r}", "expected an `Agent` of the SDK")
        wrap(agent)
        return agent

    async def aclose(self) -> None:
        """Wait for the ends of streamed runs, write the last records and close the components."""
        await asyncio.gather(*self._ends)
        await super().aclose()

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run *agent* as `Runner.run` does.

        Raises `InputGuardrailTripwireTriggered` for a denied prompt.
        """
        async with self._started(agent, input, options) as (run, user_input):
            result = await Runner.run(self.wrap(agent), user_input, **options)
        await run.end(result)
        return result

    async def run_streamed(
        self,
        agent: Agent[Any],
        input: Any,  # noqa: A002
        **options: Any,
    ) -> RunResultStreaming:
        """Start a run as `Runner.run_streamed` does, after its prompt has passed the handlers."""
        async with self._started(agent, input, options) as (run, user_input):
            result = Runner.run_streamed(self.wrap(agent), user_input, **options)
        end = asyncio.create_task(_end_streamed(run, result))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return result

    def run_sync(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run *agent* as `run` does, from a thread without an event loop."""
        result: RunResult = run_for_thread(lambda _: self.run(agent, input, **options))
        return result

    @asynccontextmanager
    async def _started(
        self, agent: Agent[Any], user_input: Any, options: dict[str, Any]
    ) -> AsyncIterator[tuple[JudgedRun, Any]]:
        """Begin a run, the current one of this block; adapt *options*, and end it if it fails."""
        config = options.get("run_config") or RunConfig()
        config = RunConfig(**config) if isinstance(config, dict) else config
        current = CURRENT.get()
        if current is not None and current.bridge is not self:
            reason = "another bridge runs it in a tool; use one bridge for both"
            raise RegistrationError(f"agent {agent.name!r}", reason)
        run = JudgedRun(self, _conversation(options, config))
        run.open(agent)
        if isinstance(user_input, RunState):
            # Private, but nothing else leads to the agent that goes on, perhaps after a handoff.
            wrap(user_input._current_agent or agent)  # noqa: SLF001
            run.paused.update(_paused_calls(user_input))
        else:
            user_input = await run.begin(user_input)
        model = JudgedModel(config.model) if isinstance(config.model, Model) else config.model
        provider = JudgedProvider(config.model_provider)
        options["run_config"] = replace(config, model=model, model_provider=provider)
        try:
            with set_context(CURRENT, run):
                yield run, user_input
        except BaseException as error:
            await run.fail(error)
            raise


def _paused_calls(state: RunState[Any]) -> Iterator[tuple[str, ToolCall]]:
    """Yield the calls of *state* that wait for the framework's user, by their ids."""
    for item in state.get_interruptions():
        call_id = getattr(item.raw_item, "call_id", None)
        if call_id and item.tool_name:
            yield call_id, given_call(call_id, item.tool_name, item.arguments or "")


async def _end_streamed(run: JudgedRun, result: RunResultStreaming) -> None:
    """Wait for a streamed run, and put its end on the bus."""
    loop = result.run_loop_task
    assert loop is not None  # noqa: S101 - `run_streamed` starts it
    await asyncio.wait({loop})
    error = asyncio.CancelledError() if loop.cancelled() else loop.exception()
    if error is None:
        await run.end(result)
    else:
        await run.fail(error)


def _conversation(options: dict[str, Any], config: RunConfig) -> str:
    """Return the framework's id of the conversation, "" without one."""
    session = options.get("session")
    known = None if session is None else session.session_id
    return known or options.get("conversation_id") or config.group_id or ""

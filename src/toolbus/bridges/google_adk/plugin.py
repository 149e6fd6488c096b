"""The plugin of a `Runner` that takes its prompts, calls and answers through components."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import ref

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.session import PromptDenied
from toolbus.settings.extras import needs_extra

try:
    from google.adk.agents import LlmAgent
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

    from toolbus.bridges.google_adk.contents import (
        answers_in,
        as_object,
        declared,
        judge_results,
        show_tools,
        spec_of,
        texts_of,
        with_text,
    )
    from toolbus.bridges.google_adk.guarded_call import CURRENT, GuardedCall
except ImportError as error:
    msg = needs_extra("the bridge to Google ADK needs its library", "google-adk")
    raise ImportError(msg, name="google.adk") from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.adk.agents.base_agent import BaseAgent
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.tools.tool_context import ToolContext

    from toolbus.bridges.google_adk.guarded_call import RunAsync
    from toolbus.bridges.session import BridgeSession
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent


NAME = "toolbus"
"""The name of the plugin; it is the same for all, so a runner refuses a second one."""


class GoogleADKBridge(FrameworkBridge, BasePlugin):
    """A plugin with *components*: `Runner(agent=agent, plugins=[bridge], …)`, or of an `App`.

    *options* are those of `BridgeHost`. Without an *approver* the framework puts a guard's question
    to its user, by its tool confirmation, and the run goes on with the answer.

    Put it first: an answer of an earlier plugin in place of a tool is judged as a result only. A
    runner takes one bridge. Agents in `AgentTool`, `sub_agents` and workflows belong to their
    runner; a runner that a tool makes needs this plugin too. Close it by `aclose`: runners share
    it, so the end of one does not close it.
    """

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        FrameworkBridge.__init__(self, "google_adk", components, **options)
        BasePlugin.__init__(self, NAME)
        self._runs: dict[str, _Run] = {}

    async def aclose(self) -> None:
        """Write the last records and close the components."""
        await self._end_cancelled([*self._runs])
        await super().aclose()

    # --- a run -----------------------------------------------------------------------------------

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Judge the prompt, or results that the program sends later than its tools.

        A denied prompt is replaced by the reason, which is then the answer too.
        """
        lost = [id_ for id_, run in self._runs.items() if run.context() is None]
        await self._end_cancelled(lost)
        run = self._run(invocation_context)
        # The framework passes a user's thought to the model, as it passes a text.
        parts = [part.model_copy(update={"thought": None}) for part in user_message.parts or []]
        message = types.Content(role=user_message.role, parts=parts)
        message = await judge_results(run.session, message, answers_in(message))
        prompt = "\n".join(texts_of(message))
        is_result = any(part.function_response for part in parts)
        if is_result and not prompt:
            return message
        try:
            read = await run.session.begin(prompt)
        except PromptDenied as error:
            run.denied = error.reason
            return types.Content(role="user", parts=[types.Part(text=error.reason)])
        return message if read == prompt else with_text(message, read)

    async def before_run_callback(
        self, *, invocation_context: InvocationContext
    ) -> types.Content | None:
        """End the run of a denied prompt."""
        reason = self._run(invocation_context).denied
        if reason is None:
            return None
        return types.Content(role="model", parts=[types.Part(text=reason)])

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Show the model the tools as handlers left them."""
        specs = {name: spec_of(each) for name, each in declared(llm_request).items()}
        # The framework passes the calls of a component's tools as those of unknown tools.
        added = [tool.spec for tool in self.host.tools if tool.spec.name not in specs]
        session = self._session(callback_context.get_invocation_context())
        show_tools(llm_request, await session.adapt_tools([*specs.values()], added))

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Judge a text of the model; its pieces are held back if a handler judges answers.

        It is changed in place: a callback that returns one ends the row of callbacks.
        """
        invocation = callback_context.get_invocation_context()
        await self._judge_text(self._run(invocation), self._session(invocation), llm_response)

    async def on_event_callback(
        self, *, invocation_context: InvocationContext, event: Event
    ) -> None:
        """Judge what came past the other callbacks: of live runs, other plugins, and remote agents.

        A question for the user in *event* pauses the run.
        """
        run, actions = self._run(invocation_context), event.actions
        asked = {**actions.requested_tool_confirmations, **actions.requested_auth_configs}
        if asked:
            run.is_paused = True
        if event.content is not None and event.get_function_responses():
            answers = answers_in(event.content) if event.author == "user" else ()
            judged = {*run.judged, *asked, *answers}
            event.content = await judge_results(run.session, event.content, judged)
        is_read = event.author == "user" or run.denied is not None
        if not is_read and "".join(texts_of(event.content)) not in run.read:
            await self._judge_text(run, run.session, event)

    async def _judge_text(self, run: _Run, session: BridgeSession, reply: LlmResponse) -> None:
        """Let *reply*, of a model or an event, have its text as handlers of answers leave it."""
        content, text = reply.content, "".join(texts_of(reply.content))
        if content is None or not text:
            return
        if reply.partial:
            reply.content = None if self.host.judges("assistant") else content
            return
        read = await session.answer(text)
        run.read.add(read)
        if read != text:
            reply.content = with_text(content, read)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Put the end of a run on the bus, unless the run waits for its user."""
        run = self._runs.pop(invocation_context.invocation_id, None)
        if run is not None and run.denied is None and not run.is_paused:
            await run.session.end()

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Put the failure of a run on the bus."""
        await self._fail(invocation_context.invocation_id, error)

    async def _end_cancelled(self, invocation_ids: Iterable[str]) -> None:
        """Put the ends of runs on the bus of which no callback told (google-adk 2.13)."""
        for invocation_id in invocation_ids:
            await self._fail(invocation_id, asyncio.CancelledError())

    async def _fail(self, invocation_id: str, error: BaseException) -> None:
        run = self._runs.pop(invocation_id, None)
        if run is not None and run.denied is None:
            await run.session.fail(error)

    def _run(self, context: InvocationContext) -> _Run:
        run = self._runs.get(context.invocation_id)
        if run is None:
            run = self._runs[context.invocation_id] = _Run(self._session(context), context)
        return run

    # --- its calls -------------------------------------------------------------------------------

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Guard the tool, which runs after the callbacks and the confirmation of the framework."""
        if type(tool) is BaseTool:  # The tool is unknown, and cannot run (google-adk 2.13).
            return as_object(await self.run_tool(tool, tool.run_async, tool_args, tool_context))
        _guard(tool)
        return None

    async def run_tool(
        self, tool: BaseTool, inner: RunAsync, arguments: dict[str, Any], context: ToolContext
    ) -> Any:
        """Take a call of *tool* through the handlers and *inner*; return the result."""
        invocation = context.get_invocation_context()
        run = self._run(invocation)
        # A runner in a tool ends before its user can answer, a live call does not wait, and a tool
        # of a workflow without an agent makes another call with the answer (google-adk 2.13).
        can_ask = (
            self.host.pauses
            and not run.session.scope.lineage
            and invocation.live_request_queue is None
            and isinstance(invocation.agent, LlmAgent)
        )
        call = GuardedCall(self._session(invocation), tool, context, can_ask=can_ask)
        run.judged.add(call.call_id)
        return await call.run(inner, arguments)

    async def before_agent_callback(self, *, agent: BaseAgent, **_: Any) -> None:
        """Refuse an agent that gives tasks: no callback of tools tells of these calls (2.13)."""
        modes = [getattr(each, "mode", None) for each in agent.sub_agents]
        if isinstance(agent, LlmAgent) and "task" in modes:
            problem = "has a sub-agent with mode='task', whose calls cannot be judged"
            raise BridgeError(f"the agent {agent.name!r} {problem}; use 'single_turn'")

    def _session(self, context: InvocationContext) -> BridgeSession:
        session, agent = context.session, "" if context.agent is None else context.agent.name
        names = (session.app_name, session.user_id, session.id)
        return self.host.session_here("/".join([quote(name, safe="") for name in names]), agent)


class _Run:
    """A run in *session*; *denied*: why its prompt was denied.

    *judged* are the ids of judged calls, *read* the texts of answers as handlers left them.
    """

    denied: str | None = None
    is_paused = False

    def __init__(self, session: BridgeSession, context: InvocationContext) -> None:
        # The framework forgets the context of a run that it has left.
        self.session, self.context = session, ref(context)
        self.judged, self.read = set[str](), set[str]()


class _GuardedRun:
    """The method `run_async` of *tool*, for calls in runners with and without a bridge.

    The framework has no hook around a tool: a callback that ran the tool would skip the tool's
    confirmation and the callbacks after its own (google-adk 2.13).
    """

    def __init__(self, tool: BaseTool) -> None:
        replaced = vars(tool).get("run_async")
        # Toolsets rename their tools in copies, which have this method too.
        is_copy = isinstance(replaced, _GuardedRun)
        self.replaced: RunAsync | None = replaced.replaced if is_copy else replaced
        self.tool = tool

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        inner: RunAsync = self.replaced or partial(type(self.tool).run_async, self.tool)
        bridge = tool_context.get_invocation_context().plugin_manager.get_plugin(NAME)
        if not isinstance(bridge, GoogleADKBridge) or CURRENT.get() is tool_context:
            return await inner(args=args, tool_context=tool_context)
        return await bridge.run_tool(self.tool, inner, args, tool_context)


def _guard(tool: BaseTool) -> None:
    """Let each call of *tool* pass the bridge of its runner."""
    run = tool.run_async
    if not isinstance(run, _GuardedRun) or run.tool is not tool:
        run = vars(tool)["run_async"] = _GuardedRun(tool)
    if tool.run_async is not run:
        raise BridgeError(f"`run_async` of the tool {tool.name!r} cannot be replaced")

"""The agent: a model, tools, components and a session on one bus."""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from toolbus.agent.arguments import (
    AgentConfig,
    agent_gate,
    check_config,
    is_owned,
    make_scope,
    model_of,
    store_of,
)
from toolbus.agent.runtime import AgentRuntime, OwnedParts
from toolbus.bus.bus import EventBus
from toolbus.bus.grace import GRACE
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Iterable
    from typing import TypeAlias

    # Type checkers know this package without an installation, and nothing else imports it.
    from typing_extensions import TypeVar

    from toolbus.agent.options import AgentOptions, RunArguments
    from toolbus.agent.prompts import Prompt
    from toolbus.agent.streaming import Piece
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.components.participants import BeforeToolCallback
    from toolbus.events.catalogue import RunResult
    from toolbus.messages.records import JsonObject
    from toolbus.models.protocol import Model
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.definitions import Tool
    from toolbus.tools.toolset import Toolset

    T = TypeVar("T", default=Any)
    V = TypeVar("V")
    Pieces: TypeAlias = AsyncGenerator[Piece | RunResult[V], None]
else:
    from typing import TypeVar

    T = TypeVar("T")


class Agent(AgentRuntime, Generic[T]):
    """A model that works with tools, every step of it on a bus.

    Use it in `async with`, or call `aclose` at its end: that drains observers and releases the
    resources of components. A store with messages under *session_id* resumes that session. Raises
    `RegistrationError` for arguments that could never work.

    Args:
        model: a model of `toolbus.models`, or text with its provider and name: `anthropic:NAME`,
            `openai:NAME` or `openai-responses:NAME`.
        tools: tools, plain functions, or toolsets, which may change later.
        components: components and adapters, installed in this order.
        bus: a bus to share with other agents; without one, its own, and as a sub-agent the bus of
            its caller.
        store: the store of messages; in memory by default. An address (the path of an SQLite
            file, `postgresql://HOST/DATABASE`, `service=NAME`) is opened, and closed with the
            agent.
        session_id: fresh by default.
        agent_id: its name in every scope, unique on its bus; fresh by default.
        system: the system message of a new session; a resumed session keeps its own, with a
            warning in the log if they differ.
        approver: decides the questions of guards: `approver(ask, call, scope) -> bool | Deny`; or
            `toolbus.approvals.StoredApprovals`, whose questions may be answered later: a run then
            ends as "pending", and `resume` goes on.
        approval_timeout: the approver's timeout in seconds; without an answer the call is denied.
        before_tool_callback: see `set_before_tool_callback`.
        deps: any object, for its tools and sub-agents alone: `ToolContext.deps`.
        output_type: the type of `RunResult.output` of its runs: any that msgspec or pydantic
            reads from JSON. The model gets its schema, and another try if its answer does not fit.
        output_retries: the number of such tries in one run; then `OutputError` leaves the run.
        max_turns: the limit of model calls in one run.
        model_settings: the `ModelRequest.settings` of each model call.
        ids, clock: creates ids of runs, calls and messages; counts nanoseconds, for durations.
        grace: seconds for handlers, tools and observers after a cancellation or a close; a handler
            that still hangs then is cut off, and its failure policy applies.
        keep_originals: also store the values that handlers changed or denied, so that
            `toolbus explain` shows differences; this includes redacted secrets.

    >>> agent = Agent(ScriptedModel(["Good morning."]), tools=[greet])
    >>> agent.run_sync("Hello.").text
    'Good morning.'
    """

    @overload
    def __init__(
        self: Agent[str],
        model: Model | str,
        *,
        output_type: type[str] | None = None,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, model: Model | str, *, output_type: type[T], **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any],
        model: Model | str,
        *,
        output_type: object,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        model: Model | str,
        *,
        output_type: Any = None,
        tools: Iterable[Tool | Callable[..., Any] | Toolset] = (),
        components: Iterable[AgentComponent | ToolAdapter] = (),
        bus: EventBus | None = None,
        store: Store | str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        system: str | None = None,
        approver: Approver | CallGate | None = None,
        approval_timeout: float | None = None,
        before_tool_callback: BeforeToolCallback | None = None,
        deps: Any = NO_DEPS,
        max_turns: int = 50,
        output_retries: int = 2,
        model_settings: JsonObject = EMPTY,
        ids: Callable[[], str] = new_id,
        clock: Callable[[], int] = perf_counter_ns,
        grace: float = GRACE,
        keep_originals: bool = False,
    ) -> None:
        from toolbus.agent.outputs import output_of  # noqa: PLC0415 - with the first agent
        from toolbus.agent.subagents import AgentTools  # noqa: PLC0415 - as above

        owned = OwnedParts(bus is None, is_owned(store), isinstance(model, str))
        sessions = store_of(store)
        bus, scope = EventBus() if bus is None else bus, make_scope(agent_id, session_id, ids)
        config = AgentConfig(
            model=model_of(model),
            bus=bus,
            tools=AgentTools(bus, scope.agent_id, tools),
            store=sessions,
            has_store=store is not None,
            gate=agent_gate(approver, approval_timeout, sessions),
            system=system,
            max_turns=max_turns,
            model_settings=model_settings,
            ids=ids,
            clock=clock,
            keep_originals=keep_originals,
            deps=deps,
            output=output_of(output_type),
            output_retries=output_retries,
        )
        check_config(config)
        super().__init__(config, scope, components, grace, owned)
        self.set_before_tool_callback(before_tool_callback)

    @overload
    async def run(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    async def run(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> RunResult[Any]:
        """Run on *prompt* until the model answers without a tool call; return the result.

        Outside `async with` it also waits for async observers, at most for the grace period.

        Raises the error of a model or a store if no handler of `RUN_ERROR` answers it, and
        `MessageDenied` if the prompt was denied at the transcript.

        Args:
            prompt: the user's message: text, a list of texts and parts, or a `UserMessage`, whose
                id and metadata are kept. `RunStart.prompt` has its content.
            context: facts about the caller (user, tenant, language): `Scope.context` of events.
            deps: replaces the agent's for this run.
            output_type: replaces the agent's for this run; `str`: text.
        """
        return await self._run(prompt, context, deps, output_type)

    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    def run_sync(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> RunResult[Any]:
        """Run as `run` does, outside any event loop; observers have seen all events on return."""
        run = partial(self._run, prompt, context, deps, output_type)
        return self._run_alone("run(prompt)", run)

    @overload
    def stream(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> Pieces[T]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> Pieces[V]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> Pieces[Any]: ...
    def stream(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> Pieces[Any]:
        """Run as `run` does; yield the pieces of the answers, and at the end the result.

        A `ModelDelta` is a piece of text, of reasoning, or of a tool call as it grows; a
        `ToolMessage` answers a call, and a `TurnEnd` follows. Pieces that a handler may still
        change or deny are held: text until its message was appended, arguments until the call was
        judged. Without such handlers the pieces are not held. Leaving the loop early cancels the
        run; inside `contextlib.aclosing` it has ended when the block has.
        """
        return self._stream(prompt, context, deps, output_type)

    @overload
    async def resume(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    async def resume(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    async def resume(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    async def resume(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> RunResult[Any]:
        """Go on from the stored session; return the result, "pending" if it waits for a person.

        Waiting calls pass the current handlers, and run once if they were approved; a denial is
        their result. Ended calls are not run again, and a call that a killed process may have run
        is answered as interrupted. Then the model goes on. A session whose last answer has no
        calls is at its end, which is returned. `RUN_BEFORE` is not dispatched again.

        The arguments are those of `run`, which are not stored; the limit of turns begins anew. A
        run that waits at a guard of `RUN_BEFORE` has stored nothing: `run` it again with its
        prompt. Raises the errors of `run`, and `AppendError` for a session without a run.
        """
        return await self._run(None, context, deps, output_type)

    @overload
    def resume_sync(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    def resume_sync(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    def resume_sync(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    def resume_sync(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> RunResult[Any]:
        """Resume as `resume` does, outside any event loop; observers have seen all on return."""
        run = partial(self._run, None, context, deps, output_type)
        return self._run_alone("resume()", run)

    @overload
    def resume_stream(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> Pieces[T]: ...
    @overload
    def resume_stream(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> Pieces[V]: ...
    @overload
    def resume_stream(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> Pieces[Any]: ...
    def resume_stream(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> Pieces[Any]:
        """Resume as `resume` does, and yield pieces as `stream` does.

        The first pieces are the messages that answer the waiting calls, and the end of their turn,
        with the number 0.
        """
        return self._stream(None, context, deps, output_type)

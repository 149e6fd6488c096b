"""The component: foreign interceptors around our agent."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.contract import JCS, IdentityProvider
from toolbus.bridges.agent_hooks.hooked_session import HookedSession
from toolbus.bridges.agent_hooks.seams import (
    MAX_RECORDS,
    ApprovalSeam,
    Composition,
    HostOptions,
    bind_all,
    declared_options,
)
from toolbus.bridges.agent_hooks.wire_records import (
    read_answer,
    read_messages,
    read_text,
    read_value,
    wire_answer,
    wire_call,
    wire_messages,
    wire_prompt,
    wire_tools,
    wire_value,
)
from toolbus.components.components import LATE, AgentComponent
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    Deny,
)
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bridges.agent_hooks.contract import Context
    from toolbus.bridges.agent_hooks.emission import Record
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscriptions import HandlerOptions
    from toolbus.components.components import Host
    from toolbus.events.catalogue import (
        ModelFailure,
        ModelRequest,
        RunResult,
        RunStart,
        Scope,
        ToolCallOutcome,
    )
    from toolbus.messages.records import Message, ToolCall

logger = logging.getLogger("toolbus")
_LAST = 3 * LATE
"""After every other handler, redactions included: interceptors are foreign code."""


class AgentHooksComponent(AgentComponent):
    """The *interceptors* of the agent-hooks contract around an agent.

    All together are the last transformer of an event: they get values as every rewrite and
    redaction left them. Guards of the agent judge the outcome, and can only deny or ask.

    Args:
        interceptors: objects with `intercept(context)`, or a mapping from names to them.
        composition: a profile's name, a dict of the contract, or the SDK's `CompositionConfig`.
        mode: "enforce", or "evaluate_only": verdicts are only recorded.
        resolver: decides liftable denials, by `resolve(request)`; without one they stand. An
            approver of an agent will do, `StoredApprovals` too: it has no *timeout* here.
        redactor: returns a context as the resolver may see it.
        identity: "jcs-sha256", an `IdentityProvider`, or None for records without identities.
        timeout: the maximum seconds of an interceptor or the resolver, None for no limit.
        incremental: judge streamed answers piece by piece; else they are held until judged.
        sink: gets each record at once, as a dict of the contract.
        max_records: the most records in `records`, None for no limit.
    """

    def __init__(
        self,
        interceptors: Any = (),
        *,
        composition: Any = "sequential/first_deny",
        mode: Literal["enforce", "evaluate_only"] = "enforce",
        resolver: Any = None,
        redactor: Callable[[Context], Context] | None = None,
        identity: IdentityProvider | str | None = JCS,
        timeout: float | None = 5.0,
        incremental: bool = False,
        sink: Callable[[Record], object] | None = None,
        max_records: int | None = MAX_RECORDS,
    ) -> None:
        super().__init__()
        if mode not in {"enforce", "evaluate_only"}:
            raise RegistrationError(f"mode {mode!r}", "expected 'enforce' or 'evaluate_only'")
        if isinstance(identity, str) and identity != JCS:
            raise RegistrationError(f"identity {identity!r}", f"expected {JCS!r} or a provider")
        provider = IdentityProvider() if isinstance(identity, str) else identity
        options = HostOptions(
            interceptors=bind_all(interceptors, timeout),
            composition=Composition.read(composition),
            mode=mode,
            seam=ApprovalSeam(resolver, redactor, timeout, provider),
            max_records=max_records,
        )
        self._configure(options, sink, incremental=incremental)

    @classmethod
    def from_declaration(
        cls,
        document: Any,
        registry: Any,
        *,
        incremental: bool = False,
        sink: Callable[[Record], object] | None = None,
    ) -> Self:
        """Return the component of *document*, a host declaration: a dict, JSON text or a path.

        *registry* is the SDK's `HostRegistry`; raises its `DeclarationError`.
        """
        component = cls()
        component._configure(declared_options(document, registry), sink, incremental=incremental)
        return component

    def _configure(
        self, options: HostOptions, sink: Callable[[Record], object] | None, *, incremental: bool
    ) -> None:
        self._options, self._sink, self._incremental = options, sink, incremental
        self._records: deque[Record] = deque(maxlen=options.max_records)
        self._sessions: dict[str, HookedSession] = {}

    @property
    def records(self) -> tuple[Record, ...]:
        """The last records, as dicts of the contract."""
        return tuple(self._records)

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        try:
            if self._sink is not None:
                self._sink(record)
        except Exception:
            logger.exception("a record of agent-hooks could not be delivered")

    def subscribe(self, host: Host) -> None:
        """Subscribe the handlers, with the bus for an approver in place of a resolver."""
        super().subscribe(host)
        self._options = replace(self._options, seam=self._options.seam.on(host.bus))
        answers: HandlerOptions = {
            "roles": "assistant",
            "priority": _LAST,
            "on_error": "closed",
            "incremental": self._incremental,
        }
        self.add_handler(Mark(MESSAGE_APPEND_BEFORE, "on", answers), self.judge_answer)

    async def close(self) -> None:
        """Emit the shutdown of every session."""
        for session in tuple(self._sessions.values()):
            await self._shut_down(session)

    # --- the points ------------------------------------------------------------------------------

    @on(RUN_BEFORE, priority=_LAST, on_error="closed")
    async def begin(self, ctx: EventContext[RunStart]) -> Deny | None:
        """Emit `agent_startup` before the first run."""
        return await self._session_of(ctx.scope).start(ctx)

    @on(MESSAGE_APPEND_BEFORE, roles="user", priority=_LAST, on_error="closed")
    async def judge_input(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Emit `input` for every message of a user, as redactions left it."""
        message = ctx.value
        if not isinstance(message, UserMessage):
            return None
        return await self._session_of(ctx.scope).emit(
            ctx,
            "input",
            lambda target: message.with_text(read_text(target)),
            input={"content": wire_prompt(message.content), "role": "user"},
        )

    @on(MODEL_CALL_BEFORE, priority=_LAST, on_error="closed")
    async def judge_request(self, ctx: EventContext[ModelRequest]) -> ModelRequest | Deny | None:
        """Emit `pre_model_call`."""
        request, session = ctx.value, self._session_of(ctx.scope)
        session.model = request.model
        session.forget_answer()
        return await session.emit(
            ctx,
            "pre_model_call",
            lambda target: replace(request, messages=read_messages(target, request.messages)),
            model={"id": request.model},
            messages=wire_messages(request.messages),
            tools=wire_tools(request.tools),
        )

    async def judge_answer(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Emit `post_model_call`, and for a final answer `output`."""
        message, session = ctx.value, self._session_of(ctx.scope)
        if not isinstance(message, AssistantMessage) or not ctx.scope.run_id:
            return None  # The program itself made it.
        if ctx.window is not None:
            return await session.judge_growing(ctx, ctx.window)
        if (refusal := session.take_refusal(message)) is not None:
            return refusal
        answer = await session.emit(
            ctx,
            "post_model_call",
            partial(read_answer, message=message),
            model={"id": session.model},
            response=wire_answer(message),
        )
        if isinstance(answer, Deny):
            return answer
        judged = answer or message
        if judged.tool_calls:
            return judged
        final = await session.emit(
            ctx,
            "output",
            lambda target: judged.with_text(read_text(target)),
            output={"content": judged.content},
        )
        return final or judged

    @on(TOOL_CALL_BEFORE, priority=_LAST, on_error="closed")
    async def judge_call(self, ctx: EventContext[ToolCall]) -> ToolCall | Deny | None:
        """Emit `pre_tool_call`."""
        call, session = ctx.value, self._session_of(ctx.scope)
        return await session.emit(
            ctx, "pre_tool_call", call.with_arguments, tool_call=wire_call(call)
        )

    @on(TOOL_CALL_AFTER)
    def note_outcome(self, ctx: EventContext[ToolCallOutcome]) -> None:
        """Keep the outcome for the next message."""
        self._session_of(ctx.scope).outcomes[ctx.value.requested.id] = ctx.value

    @on(MESSAGE_APPEND_BEFORE, roles="tool", priority=_LAST, on_error="closed")
    async def judge_result(self, ctx: EventContext[Message]) -> Message | Deny | None:
        """Emit `post_tool_call` for a call with a result of its tool or of a handler."""
        message, session = ctx.value, self._session_of(ctx.scope)
        if not isinstance(message, ToolMessage) or message.tool_response is None:
            return None
        response = message.tool_response
        outcome = session.outcomes.pop(message.tool_call_id, None)
        if outcome is None or (outcome.executed is None and outcome.status != "answered"):
            return None
        return await session.emit(
            ctx,
            "post_tool_call",
            lambda target: message.with_tool_response(read_value(target, response)),
            tool_call=wire_call(outcome.executed or outcome.requested),
            tool_result={
                "value": wire_value(response),
                "is_error": response.is_error,
                "duration_ms": outcome.duration_ns / 1e6,
            },
        )

    @on(RUN_AFTER)
    async def end_run(self, ctx: EventContext[RunResult]) -> None:
        """Keep the end of the run; the session of a sub-agent ends with it."""
        session, status = self._session_of(ctx.scope), ctx.value.status
        session.reason = {"ok": "completed", "cancelled": "cancelled"}.get(status, "error")
        if ctx.scope.lineage:
            await self._shut_down(session)

    @on(MODEL_CALL_ERROR)
    def note_failure(self, ctx: EventContext[ModelFailure]) -> None:
        """Record that the rest of a broken stream was never judged, and is not released."""
        self._session_of(ctx.scope).break_off()

    # --- sessions --------------------------------------------------------------------------------

    async def _shut_down(self, session: HookedSession) -> None:
        """End *session*, once."""
        if self._sessions.pop(session.scope.session_id, None) is not None:
            await session.end()

    def _session_of(self, scope: Scope) -> HookedSession:
        if self.host is None:
            raise self._refusal("it is not installed")
        session = self._sessions.get(scope.session_id)
        if session is None:
            session = HookedSession(self._options, self.host, self._keep)
            self._sessions[scope.session_id] = session
        session.scope = scope
        return session

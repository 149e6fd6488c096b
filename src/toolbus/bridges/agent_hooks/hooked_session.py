"""A session of our agent as a host of interceptors: its emissions, each with a record."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bridges.agent_hooks.contract import ContractError, check_context, context_of
from toolbus.bridges.agent_hooks.emission import Emission
from toolbus.events.catalogue import Deny, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bridges.agent_hooks.contract import Context, Point
    from toolbus.bridges.agent_hooks.emission import Record
    from toolbus.bridges.agent_hooks.seams import HostOptions
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.details import AnswerWindow
    from toolbus.components.components import Host
    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.messages.records import AssistantMessage

T = TypeVar("T")


class HookedSession:
    """The facts about a session: its last *scope* and *model*, and the end of its last run.

    *outcomes* has the calls whose results the next messages bring; *keep* takes each record.
    """

    def __init__(self, options: HostOptions, host: Host, keep: Callable[[Record], object]) -> None:
        self.scope, self.model, self.reason = Scope(), "model", "completed"
        self.outcomes: dict[str, ToolCallOutcome] = {}
        self._options, self._host, self._keep = options, host, keep
        self._sequence = count()
        self._has_begun = self._is_started = False
        # Of a streamed answer: the text so far, its part that was judged, and the refused part.
        self._growing = self._judged = ""
        self._refusal: tuple[str, Deny] | None = None

    async def start(self, ctx: EventContext[Any]) -> Deny | None:
        """Emit the start of the session once it may begin; return the denial, or None."""
        if not self._is_started:
            self._has_begun = True
            names = sorted([tool.spec.name for tool in self._host.tools])
            started = await self.emit_unread(
                "agent_startup", agent_init={"tools_registered": names}
            )
            ctx.note(started.notes)
            if not started.proceeds:
                return Deny(started.verdict.text)
            self._is_started = True
        return None

    async def emit(
        self, ctx: EventContext[Any], point: Point, read: Callable[[Any], T], **members: Any
    ) -> Deny | T | None:
        """Emit *point* in a started session; return the denial, or what *read* makes of a target.

        It is None for an unchanged target. The ledger has the interceptors in the entry of *ctx*.
        """
        if (denied := await self.start(ctx)) is not None:
            return denied
        emitted = await self.emit_unread(point, **members)
        ctx.note(emitted.notes)
        if not emitted.proceeds:
            return Deny(emitted.verdict.text)
        return read(emitted.target) if emitted.is_changed else None

    async def end(self) -> None:
        """Emit the end of the session, if it has begun."""
        if self._has_begun:
            await self.emit_unread("agent_shutdown", summary={"reason": self.reason})

    async def emit_unread(self, point: Point, **members: Any) -> Emission:
        """Put a context of *point* to the interceptors; return the recorded emission."""
        emission, identity = self._emission(point, members), None
        try:
            identity = self._identify(emission.context)
            await emission.compose()
        except ContractError as error:
            emission.reject(error)
        except asyncio.CancelledError:
            # The record stays without a gap, and the action does not go on.
            emission.reject(ContractError("interceptor_failed", "CancelledError"))
            self._end(emission, identity)
            raise
        self._end(emission, identity)
        return emission

    def _emission(self, point: Point, members: dict[str, Any]) -> Emission:
        context = context_of(point, self.scope, next(self._sequence), **members)
        return Emission(context, self._options)

    def _identify(self, context: Context) -> str | None:
        provider = self._options.seam.identity
        return None if provider is None else provider.identify(context)

    def _end(self, emission: Emission, identity: str | None) -> None:
        """Record the end of *emission*, whose context had *identity* at first."""
        enforced, provider = None, self._options.seam.identity
        try:
            check_context(emission.context)
            enforced = None if identity is None else self._identify(emission.context)
        except ContractError as error:
            # A transform has left no valid value, so nothing can go on with it.
            if emission.verdict.permits:
                emission.reject(error)
        self._keep(
            {
                **emission.record(self._options),
                "input_identity": identity,
                "enforced_identity": enforced,
                "identity_provider": None if provider is None else provider.name,
            }
        )

    # --- streamed answers ------------------------------------------------------------------------

    async def judge_growing(self, ctx: EventContext[Any], window: AnswerWindow) -> Deny | None:
        """Emit the text before the newest piece, which the next call or the whole answer covers."""
        if window.kind != "text":
            return None
        judged, self._growing = self._growing, window.text
        if not judged or judged == self._judged:
            return None
        end = await self.emit(ctx, "post_model_call", bool, **self._answer(judged, "incremental"))
        if isinstance(end, Deny):
            self._refusal = judged, end
            return end
        self._judged = judged
        # Nothing more is released of an answer that an interceptor changes.
        if end is None:
            window.release(judged)
        return None

    def take_refusal(self, message: AssistantMessage) -> Deny | None:
        """Return the denial of a part of *message*, and forget its pieces."""
        refusal = self._refusal
        if refusal is not None and message.content.startswith(refusal[0]):
            return refusal[1]
        self.forget_answer()
        return None

    def break_off(self) -> None:
        """Record that the rest of a broken answer was never judged."""
        if self._growing != self._judged:
            emission = self._emission("post_model_call", self._answer("", "error"))
            emission.reject(ContractError("streaming_unsupported"))
            self._end(emission, None)
        self.forget_answer()

    def forget_answer(self) -> None:
        """Forget the answer so far."""
        self._growing = self._judged = ""
        self._refusal = None

    def _answer(self, text: str, reason: str) -> dict[str, Any]:
        response = {"content": text, "tool_calls": [], "finish_reason": reason}
        return {"model": {"id": self.model}, "response": response}

"""A session of our agent as a host of interceptors: its start, its answers and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bridges.agent_hooks.contract import ContractError
from toolbus.events.catalogue import Deny, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bridges.agent_hooks.contract import Point
    from toolbus.bridges.agent_hooks.emission import Emitted, HookEmitter
    from toolbus.bus.dispatch.details import AnswerWindow
    from toolbus.components.components import Host
    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.messages.records import AssistantMessage

T = TypeVar("T")


class HookedSession:
    """The facts about a session: its last *scope* and *model*, and the end of its last run.

    *outcomes* has the calls whose results the next messages bring.
    """

    def __init__(self, emitter: HookEmitter, host: Host) -> None:
        self.scope, self.model, self.reason = Scope(), "model", "completed"
        self.outcomes: dict[str, ToolCallOutcome] = {}
        self._emitter, self._host = emitter, host
        self._has_begun = self._is_started = False
        # Of a streamed answer: the text so far, its part that was judged, and the refused part.
        self._growing = self._judged = ""
        self._refusal: tuple[str, Deny] | None = None

    async def start(self) -> Deny | None:
        """Emit the start of the session once it may begin; return the denial, or None."""
        if not self._is_started:
            self._has_begun = True
            names = sorted([tool.spec.name for tool in self._host.tools])
            started = await self._emit("agent_startup", agent_init={"tools_registered": names})
            if not started.proceeds:
                return Deny(started.verdict.text)
            self._is_started = True
        return None

    async def emit(self, point: Point, read: Callable[[Any], T], **members: Any) -> Deny | T | None:
        """Emit *point* in a started session; return the denial, or what *read* makes of a target.

        It is None for an unchanged target.
        """
        if (denied := await self.start()) is not None:
            return denied
        emitted = await self._emit(point, **members)
        if not emitted.proceeds:
            return Deny(emitted.verdict.text)
        return read(emitted.target) if emitted.is_changed else None

    async def end(self) -> None:
        """Emit the end of the session, if it has begun."""
        if self._has_begun:
            await self._emit("agent_shutdown", summary={"reason": self.reason})
            self._emitter.forget(self.scope.session_id)

    async def _emit(self, point: Point, **members: Any) -> Emitted:
        return await self._emitter.emit(self._host.bus, self.scope, point, **members)

    # --- streamed answers ------------------------------------------------------------------------

    async def judge_growing(self, window: AnswerWindow) -> Deny | None:
        """Emit the text before the newest piece, which the next call or the whole answer covers."""
        if window.kind != "text":
            return None
        judged, self._growing = self._growing, window.text
        if not judged or judged == self._judged:
            return None
        end = await self.emit("post_model_call", bool, **self._answer(judged, "incremental"))
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
            error = ContractError("streaming_unsupported")
            answer = self._answer("", "error")
            self._emitter.reject(self.scope, "post_model_call", error, **answer)
        self.forget_answer()

    def forget_answer(self) -> None:
        """Forget the answer so far."""
        self._growing = self._judged = ""
        self._refusal = None

    def _answer(self, text: str, reason: str) -> dict[str, Any]:
        response = {"content": text, "tool_calls": [], "finish_reason": reason}
        return {"model": {"id": self.model}, "response": response}

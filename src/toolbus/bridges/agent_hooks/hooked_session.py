"""A session of our agent as a host of interceptors: its start, its answers and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bridges.agent_hooks.mapping import ContractError
from toolbus.events.catalogue import Deny, Scope

if TYPE_CHECKING:
    from toolbus.bridges.agent_hooks.emitter import Emitted, HookEmitter
    from toolbus.bridges.agent_hooks.mapping import Point
    from toolbus.bus.dispatch.details import AnswerWindow
    from toolbus.components.components import Host
    from toolbus.messages.records import AssistantMessage


class Replaced(NamedTuple):
    """The *target* as interceptors have changed it."""

    target: Any


class HookedSession:
    """The facts about a session: its last *scope* and *model*, and the end of its last run.

    *denied_input* is the reason why a message of the present run was denied.
    """

    def __init__(self, emitter: HookEmitter, host: Host) -> None:
        self.scope, self.model, self.reason = Scope(), "model", "completed"
        self.denied_input = ""
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

    async def emit(self, point: Point, **members: Any) -> Deny | Replaced | None:
        """Emit *point* in a started session; return the denial or the new target, if any."""
        if (denied := await self.start()) is not None:
            return denied
        emitted = await self._emit(point, **members)
        if not emitted.proceeds:
            return Deny(emitted.verdict.text)
        return Replaced(emitted.target) if emitted.is_changed else None

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
        response = {"content": judged, "tool_calls": [], "finish_reason": "incremental"}
        model = {"id": self.model}
        emitted = await self.emit("post_model_call", model=model, response=response)
        if isinstance(emitted, Deny):
            self._refusal = judged, emitted
            return emitted
        self._judged = judged
        # Nothing more is released of an answer that an interceptor changes.
        if emitted is None:
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
            response = {"content": "", "tool_calls": [], "finish_reason": "error"}
            model = {"id": self.model}
            self._emitter.reject(
                self.scope, "post_model_call", error, model=model, response=response
            )
        self.forget_answer()

    def forget_answer(self) -> None:
        """Forget the answer so far."""
        self._growing = self._judged = ""
        self._refusal = None

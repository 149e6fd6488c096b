"""The handlers that judge an answer while it is being said, one after another."""

from __future__ import annotations

import logging
from collections import Counter
from inspect import isawaitable
from typing import TYPE_CHECKING, Literal

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.windows import AnswerWindow
from toolbus.bus.ledger.records import HandlerEntry
from toolbus.errors import MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, Deny
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import AssistantMessage
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.events.catalogue import Scope

    TextKind = Literal["text", "reasoning"]

logger = logging.getLogger("toolbus")


class Increments:
    """What handlers have released of one answer, each of what the one before released."""

    def __init__(self, bus: EventBus, scope: Scope) -> None:
        self._bus, self._scope = bus, scope
        self._released: dict[tuple[Binding, str], str] = {}

    async def judge(self, bindings: Sequence[Binding], kind: TextKind, text: str) -> str | None:
        """Return what may be shown of *text*; None if nobody can tell until it is whole.

        Raises `MessageDenied` as soon as one of them refuses it.
        """
        for binding in bindings:
            released = self._released.get((binding, kind), "")
            window = AnswerWindow(text, kind=kind, released=released)
            message = _message(kind, text)
            try:
                verdict = await self._call(binding, message, window)
            except Exception as error:  # noqa: BLE001 - the whole answer will be judged all the same
                name = type(error).__name__
                logger.warning("handler %r failed in mid-answer (%s)", binding.name, name)
                return None
            if isinstance(verdict, Deny) and not self._bus.dry_run:
                await self._refuse(message, verdict)
            if verdict is not None or not _is_sound(window, binding):
                return None
            self._released[binding, kind] = text = window.output
        return text

    def entries(self) -> tuple[HandlerEntry, ...]:
        """Return for the ledger how much each handler has released, once for both kinds."""
        counts: Counter[Binding] = Counter()
        for (binding, _), released in self._released.items():
            counts[binding] += len(released)
        return tuple(
            [
                HandlerEntry(
                    name=binding.name,
                    priority=binding.priority,
                    kind=binding.kind,
                    status="ran",
                    reason=f"released {count} characters",
                )
                for binding, count in counts.items()
                if count
            ]
        )

    async def _call(
        self, binding: Binding, message: AssistantMessage, window: AnswerWindow
    ) -> object:
        context = EventContext(MESSAGE_APPEND_BEFORE, message, scope=self._scope, window=window)
        if not binding.runs_for(context):
            return None  # It may be for the whole answer, so nothing more is released.
        result: object = binding.function(context)
        return await result if isawaitable(result) else result

    async def _refuse(self, message: AssistantMessage, verdict: Deny) -> None:
        """Raise for what was said so far, which the ledger has as any refused message."""
        await admit(self._bus, message, self._scope)
        raise MessageDenied(message.role, message.id, verdict.reason)


def _message(kind: TextKind, text: str) -> AssistantMessage:
    if kind == "reasoning":
        return AssistantMessage(reasoning=(ReasoningPart(text),))
    return AssistantMessage(content=text)


def _is_sound(window: AnswerWindow, binding: Binding) -> bool:
    """Tell whether what was released stays so, and a guard changed nothing."""
    output = window.output
    if not isinstance(output, str) or not output.startswith(window.released):
        return False
    return binding.kind != "guard" or window.text.startswith(output)

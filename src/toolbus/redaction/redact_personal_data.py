"""The component that replaces personal data in results of tools and in stored messages.

    from toolbus import Agent
    from toolbus.redaction.redact_personal_data import RedactPersonalData

    agent = Agent(model, tools=[crm], components=[RedactPersonalData(allow=["our-company.com"])])

Each value becomes a placeholder such as `[email-x7k2m5abcdefqrst]`, the same in a whole session.
The component needs the extra `personal`. Its manual is `toolbus guide redaction`; `toolbus guide
redaction-limits` lists settings and limits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable  # noqa: TC003 - a file's settings are of these types
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from toolbus.components.adapters import ToolAdapter
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_PERSIST_BEFORE, TOOL_CALL_BEFORE, Deny
from toolbus.events.subjects import ToolSelector
from toolbus.messages.record_walker import rewrite_message, rewrite_response
from toolbus.messages.records import ToolMessage, ToolResponse, UserMessage
from toolbus.redaction.limits import ScanLimits, UnexaminedError
from toolbus.redaction.live_placeholders import (
    former_placeholders,
    gives_a_task,
    held_placeholder,
    may_hold,
    may_hold_former,
)
from toolbus.redaction.placeholders import SessionPlaceholders, checked_key, kind_of
from toolbus.redaction.records import rewrite_record, stand_in, withheld
from toolbus.redaction.written_back import FileRedaction
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import AdapterContext
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.messages.text_walker import TextVisitor

Kind = Literal["email", "phone", "card", "iban", "national-id"]
KINDS: tuple[Kind, ...] = get_args(Kind)
T = TypeVar("T")

_STATE = "redact-personal-data"
"""The name of the session's state."""

_MOST_SESSIONS = 1_000


class RedactPersonalData(FileRedaction):
    """Replaces personal data in results of tools and in stored messages.

    Args:
        kinds: the kinds of personal data to find; by default all kinds.
        countries: ISO 3166 codes (`DE`) of the countries whose national phone numbers and ids are
            found even without a word beside them that names the kind; by default the ids of all
            countries and the numbers of a few.
        allow: values to keep: addresses, numbers as they are written, or your own domains.
        tools: glob patterns of the tools whose results and arguments are scanned.
        binary: "withhold" parts that hold no text, or "keep" them.
        max_chars: characters of text in one result; a larger result is withheld.
        max_seconds: processor time for a million characters of one result, or fewer; a result
            that takes longer is withheld.
        key: at least 32 random bytes for placeholders, shared by all machines of a deployment;
            by default the user's key, see `toolbus.settings.user_key`.
    """

    def __init__(
        self,
        *,
        kinds: Iterable[Kind] = KINDS,
        countries: Iterable[str] | None = None,
        allow: Iterable[str] = (),
        tools: Iterable[str] = ("*",),
        binary: Literal["withhold", "keep"] = "withhold",
        max_chars: int = 8_000_000,
        max_seconds: float = 5.0,
        key: bytes | None = None,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        try:
            # These modules need the extra; the documentation imports this one without it.
            from toolbus.redaction.personal.detector import Detector  # noqa: PLC0415
            from toolbus.redaction.personal.identities import identity_countries  # noqa: PLC0415
            from toolbus.redaction.personal.phones import supported_regions  # noqa: PLC0415
        except ImportError as error:
            msg = needs_extra("finding personal data needs libraries", "personal")
            raise ImportError(msg, name=error.name) from error

        wanted, chosen = tuple(kinds), None if countries is None else tuple(countries)
        _check("kinds", wanted, KINDS)
        known = {*identity_countries(), *supported_regions()}
        _check("countries", chosen or (), known)
        _check("binary", (binary,), ("withhold", "keep"))
        for name, limit in (("max_chars", max_chars), ("max_seconds", max_seconds)):
            if limit <= 0:
                reason = f"{name} must be above 0, not {limit!r}"
                raise RegistrationError("RedactPersonalData", reason)
        self._limits = ScanLimits(max_chars, max_seconds)
        self._keep_binary = binary == "keep"
        self.value_key = checked_key(key)
        self._known = known
        self._detector = cache(partial(Detector, wanted, chosen, tuple(allow)))
        self._detector("")  # Built now, so that the first result does not wait for it.
        self._sessions: OrderedDict[str, SessionPlaceholders] = OrderedDict()
        self._adapter = _Redaction(self, tools)
        self.register_tool_adapter(self._adapter)

    async def redacted(self, response: ToolResponse, scope: Scope) -> ToolResponse:
        """Return *response* without personal data, for the model of the session.

        Raises `UnexaminedError` and `StoreError`.
        """
        # The parameters are for programs; the copy for the store is redacted later.
        walk = partial(rewrite_response, parameters=False)
        return await self._redact(response, walk, scope, keep_binary=self._keep_binary)

    async def for_display(self, record: T, scope: Scope) -> T | None:
        """Return *record* with marks in place of values; None if it could not be examined."""
        try:
            return await self._redact(
                record, rewrite_record, scope, keep_binary=True, shown=_marked
            )
        except UnexaminedError:
            return None

    def _state(self, scope: Scope) -> State | None:
        """Return the placeholders' state, shared by all components of this kind."""
        return None if self.host is None else self.host.state(_STATE, scope, shared=True)

    def _placeholders(self, scope: Scope) -> SessionPlaceholders:
        """Return the placeholders of a session, shared by the agent and its sub-agents."""
        session = scope.root_session_id or scope.session_id
        placeholders = self._sessions.pop(session, None) or SessionPlaceholders(session)
        placeholders.begin(self._state(scope), self.value_key)
        self._sessions[session] = placeholders
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return placeholders

    async def keep_personal_data(self, ctx: EventContext[ToolCall]) -> Deny | None:
        """Deny a call with a placeholder of the session: its tool would lose the value."""
        if not may_hold(ctx.value.arguments) or gives_a_task(ctx, self.host):
            return None
        call = await self.filled_from_file(ctx.value, ctx.scope) or ctx.value
        is_former = may_hold_former(call.arguments)
        former = await former_placeholders(self._state(ctx.scope)) if is_former else None
        held = held_placeholder(call.arguments, self._placeholders(ctx.scope), former)
        return Deny(held.reason(ctx.value, "personal data")) if held else None

    async def written_back(self, call: ToolCall, scope: Scope) -> ToolCall | Deny:
        """Return *call* with the personal data of its file; deny if the file changed meanwhile."""
        filled = await self.filled_from_file(call, scope)
        held = filled and held_placeholder(filled.arguments, self._placeholders(scope))
        return Deny(held.reason(call, "personal data")) if held else filled or call

    def holds(self, text: str, scope: Scope) -> bool:
        """Return whether *text* has placeholders of personal data of the session."""
        return held_placeholder(text, self._placeholders(scope)) is not None

    async def clean_text(self, text: str, scope: Scope) -> str:
        """Return *text* without personal data. Raises `UnexaminedError` and `StoreError`."""
        return await self._redact(text, rewrite_record, scope, keep_binary=True)

    def subscribe(self, host: Host) -> None:
        """Subscribe the guard of placeholders."""
        super().subscribe(host)
        # Without a mark: a component restricted to some tools guards the calls of all others too.
        mark = Mark(TOOL_CALL_BEFORE, "guard", {})
        self.add_handler(mark, self.keep_personal_data, restricted=False)

    @on(MESSAGE_PERSIST_BEFORE, priority=50, on_error="closed")
    async def _on_message_persist_before_redact(
        self, ctx: EventContext[Message]
    ) -> Message | Deny | None:
        """Redact the copy for the store."""
        message = ctx.value
        if isinstance(message, ToolMessage) and not self._covers(message.tool_name):
            return None
        keep_binary = self._keep_binary or isinstance(message, UserMessage)
        try:
            changed = await self._redact(
                message, rewrite_message, ctx.scope, keep_binary=keep_binary
            )
        except UnexaminedError as error:
            return Deny(withheld(error, "personal data"))
        return None if changed is message else changed

    def _covers(self, tool_name: str) -> bool:
        return self.selector.matches(tool_name) and self._adapter.should_adapt(tool_name)

    async def _redact(
        self,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        scope: Scope,
        *,
        keep_binary: bool,
        shown: Callable[[str], str] = str,
    ) -> T:
        placeholders = self._placeholders(scope)
        detector = self._detector(self._region(scope))

        def name(kind: str, value: str) -> str:
            return shown(placeholders.of(kind, value))

        async def redact() -> T:
            return await detector.clean(
                record, walk, name, self._limits, covers=self._covers, keep_binary=keep_binary
            )

        return await placeholders.salted(redact)

    def _region(self, scope: Scope) -> str:
        """Return the country in the run's context, or "" if it has none that is known."""
        region = scope.context.get("region")
        code = region.upper() if isinstance(region, str) else ""
        return code if code in self._known else ""


class _Redaction(ToolAdapter):
    """Redacts responses for a component."""

    name = "RedactPersonalData"

    def __init__(self, component: RedactPersonalData, tools: Iterable[str]) -> None:
        self._component = component
        self.tools = ToolSelector(tools).patterns

    async def fill_parameters(self, call: ToolCall, ctx: AdapterContext) -> ToolCall | Deny:
        return await self._component.written_back(call, ctx.scope)

    async def adapt_response(
        self,
        response: ToolResponse,
        call: ToolCall,  # noqa: ARG002 - all tools' results alike
        ctx: AdapterContext,
    ) -> ToolResponse:
        try:
            return await self._component.redacted(response, ctx.scope)
        except UnexaminedError as error:
            return stand_in(response, withheld(error, "personal data"))


def _marked(placeholder: str) -> str:
    """Return the mark of a hidden value in a report, which may hold placeholders already."""
    return f"(personal {kind_of(placeholder)})"


def _check(name: str, values: Iterable[str], known: Iterable[str]) -> None:
    for value in values:
        if value not in known:
            reason = f"{name} has {value!r}; known: {', '.join(sorted(known))}"
            raise RegistrationError("RedactPersonalData", reason)

"""The release of a streamed answer: nothing is shown that somebody may still change or refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.agent.increments import Increments
from toolbus.components.adapter_handlers import AdapterHandler, owner_of
from toolbus.components.components import AgentComponent
from toolbus.errors import MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, ModelDelta
from toolbus.events.subjects import matches
from toolbus.messages.records import AssistantMessage, Message, ToolMessage, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.agent.increments import TextKind
    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.events.catalogue import Scope, ToolCallOutcome
    from toolbus.messages.records import JsonObject, ToolCall

CHANGED = "a handler that came in mid-answer changed what was shown already"
"""Why an answer is refused that is another one than the pieces of it said."""


class PendingCall(NamedTuple):
    """A call whose arguments wait for their verdict: its place, and what of it was shown."""

    place: int
    shown: str


class Release:
    """What of one answer may be shown, and when; *show* gets it.

    Text and reasoning go through as they come if no handler of `MESSAGE_APPEND_BEFORE` concerns
    answers, and as far as these let them if all are `incremental`; else they are held, and come
    from the message as it was appended. So do calls, and while a handler of `TOOL_CALL_BEFORE` is
    for its tool, the arguments of a call come with its answer.
    Handlers that are subscribed in mid-answer count at once, and what is held stays so.
    """

    def __init__(self, bus: EventBus, scope: Scope, show: Callable[[ModelDelta], None]) -> None:
        self._bus, self._scope, self._show = bus, scope, show
        self._shown: dict[tuple[str, int], list[str]] = {}
        self._version: object = None
        self._disabled: tuple[AgentComponent, ...] = ()
        self._windowed: tuple[Binding, ...] = ()
        self.increments, self._texts = Increments(bus, scope), dict[str, str]()
        self._held = self._fed = False
        self.refusal: MessageDenied | None = None
        self._held_calls: set[int] = set()
        self._pending: dict[str, PendingCall] = {}

    @property
    def has_begun(self) -> bool:
        """Whether something was shown."""
        return bool(self._shown)

    def feed(self, delta: ModelDelta) -> Awaitable[None] | None:
        """Show *delta*, or hold it; return what to await if handlers judge it in mid-answer."""
        self._fed = True
        self._look()
        if delta.kind == "tool_call":
            self._feed_call(delta)
        elif self._windowed and not self._held:
            return self._widen(delta.kind, delta.text)
        elif not self._held:
            self._give(delta)
        return None

    def _feed_call(self, delta: ModelDelta) -> None:
        if delta.index not in self._held_calls and self._judges(delta.name):
            self._held_calls.add(delta.index)
        if not (self._held or self._windowed or delta.index in self._held_calls):
            self._give(delta)

    async def _widen(self, kind: TextKind, text: str) -> None:
        """Show what may be shown now that *text* was added to what was said."""
        shown = self._text(kind)
        whole = self._texts[kind] = self._texts.get(kind, shown) + text
        try:
            released = await self.increments.judge(self._windowed, kind, whole)
        except MessageDenied as error:
            self.refusal = error
            raise
        # Who came in mid-answer may have released less yet than was shown before.
        if released is None or not (released.startswith(shown) or shown.startswith(released)):
            self._held = True
        elif len(released) > len(shown):
            self._give(ModelDelta(kind=kind, text=released[len(shown) :]))

    def objection(self, before: AssistantMessage, after: Message) -> str | None:
        """Return why *after*, which handlers made of *before*, cannot be the answer any more."""
        if not isinstance(after, AssistantMessage):
            return None
        # A model whose pieces are not those of its answer is believed, unless they were judged.
        checked: list[str | None] = []
        if self._windowed or after.content != before.content:
            checked.append(_rest(after.content, self._text("text")))
        if self._windowed or after.reasoning_text != before.reasoning_text:
            checked.append(_rest_of_reasoning(after.reasoning_text, self._text("reasoning")))
        if None in checked:
            return CHANGED
        if after.tool_calls != before.tool_calls and any(
            key[0] == "tool_call" for key in self._shown
        ):
            return CHANGED
        return None

    def finish(self, message: AssistantMessage) -> None:
        """Show what was held of the answer, which was appended as *message*."""
        self._look()
        is_late = self._held or bool(self._windowed) or not self._fed
        if is_late:
            if rest := _rest_of_reasoning(message.reasoning_text, self._text("reasoning")):
                self._give(ModelDelta(kind="reasoning", text=rest))
            if rest := _rest(message.content, self._text("text")):
                self._give(ModelDelta(kind="text", text=rest))
        for index, call in enumerate(message.tool_calls):
            shown = self._text("tool_call", index)
            if index in self._held_calls or self._judges(call.name):
                self._pending[call.id] = PendingCall(index, shown)
                if not shown:
                    # That it was called stands in the transcript; with what, is not decided.
                    self._give(_delta_of(index, "", call))
            elif is_late and (rest := _rest(_arguments(call), shown)):
                self._give(_delta_of(index, rest, call))

    def answer(self, outcome: ToolCallOutcome, message: Message) -> None:
        """Show the arguments that were held of a call, which *message* answers, if it was let."""
        pending = self._pending.pop(outcome.requested.id, None)
        is_allowed = outcome.executed is not None or outcome.status == "answered"
        if pending is None or not is_allowed or not isinstance(message, ToolMessage):
            return
        # As the message has them, which passed all handlers.
        parameters = None if message.tool_response is None else message.tool_response.parameters
        if parameters is not None and (rest := _rest(_json(parameters), pending.shown)):
            self._give(
                ModelDelta(
                    kind="tool_call",
                    text=rest,
                    index=pending.place,
                    name=message.tool_name,
                    id=message.tool_call_id,
                )
            )

    def _give(self, delta: ModelDelta) -> None:
        self._shown.setdefault((delta.kind, delta.index), []).append(delta.text)
        self._show(delta)

    def _text(self, kind: str, index: int = 0) -> str:
        return "".join(self._shown.get((kind, index), ()))

    def _look(self) -> None:
        """Hold from here on, if somebody may change or refuse the answer."""
        if self._held:
            return
        version = self._bus.version(MESSAGE_APPEND_BEFORE)
        is_awake = self._disabled and any(owner.enabled for owner in self._disabled)
        if version is self._version and not is_awake:
            return
        self._version = version
        handlers = self._bus.addressed(MESSAGE_APPEND_BEFORE, self._scope)
        concerned = [binding for binding in handlers if _concerns_answers(binding)]
        owners = {binding: _component_of(binding) for binding in concerned}
        disabled = [owner for owner in owners.values() if owner is not None and not owner.enabled]
        judging = [binding for binding in concerned if owners[binding] not in disabled]
        # Who leaves in mid-answer has seen the beginning only, and nobody sees the rest for them.
        has_all = set(self._windowed) <= set(judging)
        self._held = not (has_all and all(binding.incremental for binding in judging))
        self._disabled, self._windowed = tuple(disabled), tuple(judging)

    def _judges(self, name: str) -> bool:
        """Tell whether anybody may change or refuse a call of the tool *name*, "" if unknown."""
        bindings = self._bus.addressed(TOOL_CALL_BEFORE, self._scope)
        return any(_concerns_call(binding, name) for binding in bindings)


def _concerns_answers(binding: Binding) -> bool:
    """Tell whether the handler of *binding* runs for messages of a model."""
    if binding.ended or binding.tools or (binding.roles and "assistant" not in binding.roles):
        return False
    return not isinstance(binding.handler, AdapterHandler)


def _concerns_call(binding: Binding, name: str) -> bool:
    # Whoever gives the call another name would have to be for the name that it has.
    if binding.ended or (name and binding.tools and not matches(binding.tools, name)):
        return False
    owner = _component_of(binding)
    if owner is not None and not owner.enabled:
        return False
    handler = binding.handler
    return not isinstance(handler, AdapterHandler) or bool(handler.methods())


def _component_of(binding: Binding) -> AgentComponent | None:
    """Return the component that *binding* is a handler of, None if it is of none."""
    owner = owner_of(binding.handler)
    return owner if isinstance(owner, AgentComponent) else None


def _rest(text: str, shown: str) -> str | None:
    """Return what of *text* is still to be shown; None if it begins with something else."""
    return text[len(shown) :] if text.startswith(shown) else None


def _rest_of_reasoning(text: str, shown: str) -> str | None:
    """Do as `_rest`, for parts on lines of their own: nobody says in a stream where those end."""
    if text.startswith(shown):
        return text[len(shown) :]
    letters = shown.replace("\n", "")
    places = [place for place, letter in enumerate(text) if letter != "\n"][: len(letters)]
    if letters != "".join([text[place] for place in places]):
        return None
    return text[places[-1] + 1 :] if places else text


def _delta_of(index: int, text: str, call: ToolCall) -> ModelDelta:
    return ModelDelta(kind="tool_call", text=text, index=index, name=call.name, id=call.id)


def _arguments(call: ToolCall) -> str:
    return _json(call.arguments) if call.raw is None else call.raw


def _json(value: JsonObject) -> str:
    return encode(value).decode()

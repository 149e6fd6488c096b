"""Labels of messages: of prompts, of results by their tools, of answers by the texts in view."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.flow.decoded_texts import readings_of
from toolbus.flow.labels import PRIVATE, UNSEEN, Label
from toolbus.flow.quotes import find_quotes
from toolbus.flow.sources import ResultOrigin
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.redaction.placeholders import kinds_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.components.call_facts import CallEffects, FactSources
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.flow.session_views import SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message
    from toolbus.tools.definitions import Tool

_LONGEST = 50_000
"""The most characters that are searched for quotes."""

_PERSON = Label(speaker="person", is_trusted=True)
SYSTEM = Label(speaker="system", is_trusted=True)


class NextMessage(NamedTuple):
    """The next *message* in *view*, with its *texts* for the model, and the spec of its *tool*.

    *effects* are those of the call of a result, one for each component that reads them. It has a
    label already if it was *noted* in the ledger.
    """

    message: Message
    texts: tuple[str, ...]
    view: SessionView
    scope: Scope
    tool: ToolSpec | None = None
    noted: Label | None = None
    effects: tuple[CallEffects, ...] = ()


class MessageLabeller:
    """Makes the labels of messages by *settings*, with facts from *host* and from *sources*."""

    def __init__(self, settings: FlowSettings, host: Host, sources: FactSources) -> None:
        self._settings, self._host, self._sources = settings, host, sources

    async def with_effects(self, new: NextMessage) -> NextMessage:
        """Return *new* with the effects of the call that it answers; note its own downloads."""
        message = new.message
        if isinstance(message, ToolMessage) and (call := _answered_call(message)):
            return new._replace(effects=await self._effects_of(call, new))
        if isinstance(message, AssistantMessage) and len(message.tool_calls) > 1:
            # Of parallel calls one may read the file that another one downloads.
            for call in message.tool_calls:
                effects = await self._effects_of(call, new)
                self._origins(call, new._replace(effects=effects))
        return new

    def label(self, new: NextMessage) -> Label:
        """Return the label of *new*, joined with the noted one; note the downloads of its call."""
        if isinstance(new.message, AssistantMessage):
            label = new.view.label
        elif isinstance(new.message, ToolMessage):
            label = self._of_result(new.message, new)
        else:
            label = _of_prompt(new)
        kinds = frozenset([kind for text in new.texts for kind, _ in kinds_in(text)])
        if not kinds <= label.holds:
            label = replace(label, holds=label.holds | kinds)
        return label if new.noted is None else label.joined([new.noted])

    def _of_result(self, message: ToolMessage, new: NextMessage) -> Label:
        call_id, name, view = message.tool_call_id, message.tool_name, new.view
        below = [view.below[call_id]] if call_id in view.below else []
        may_have_run = view.unanswered.get(call_id)
        tool = self._tool(name, new.scope)
        if may_have_run is None and tool is not None and tool.delegates:
            label = Label(speaker="agent", name=name, is_trusted=True)
            return label.joined(below or [new.noted or UNSEEN])
        call = _answered_call(message) or ToolCall(id=call_id, name=name)
        origins = [] if may_have_run is False else self._origins(call, new)
        response = message.tool_response
        if may_have_run is not None and (response is None or response.is_error):
            return SYSTEM.joined(below)
        is_closed = bool(self._sources.pins) and self._is_closed(name, new)
        is_private = any(origin.is_private(self._settings) for origin in origins)
        label = Label(
            speaker="tool",
            name=name,
            server=(self._host.tools.source_of(name) or "") if tool else "",
            is_trusted=bool(origins)
            and all(each.is_trusted(self._settings, is_closed=is_closed) for each in origins),
            holds=frozenset({PRIVATE} if is_private else ()),
        )
        label = label.joined(below)
        if label.is_trusted and new.noted is None:
            encoded = [text for text in map(str, call.arguments.values()) if _is_encoded(text)]
            return _with_quotes(label, (*new.texts, *encoded), view)
        return label

    def _tool(self, name: str, scope: Scope) -> Tool | None:
        # The host knows the tools of its agent, but not those of the agents below.
        return None if scope.lineage else self._host.tools.get(name)

    def _origins(self, call: ToolCall, new: NextMessage) -> list[ResultOrigin]:
        """Return the origin of a result by each reading of its effects; note its downloads."""
        root = new.view.root
        effects: Sequence[CallEffects | None] = new.effects or [None]
        origins = [
            ResultOrigin(call, new.scope, new.texts[0], each, root.downloads) for each in effects
        ]
        root.downloads |= frozenset().union(*[each.downloaded(self._settings) for each in origins])
        return origins

    def _is_closed(self, name: str, new: NextMessage) -> bool:
        """Return whether the tool equals its pin, by which it reaches no open world."""
        spec = self._spec(name, new)
        if spec is None or spec.annotations.get("openWorldHint") is not False:
            return False
        return any(pins.is_pinned(spec, new.scope) for pins in self._sources.pins)

    def _spec(self, name: str, new: NextMessage) -> ToolSpec | None:
        tool = self._tool(name, new.scope)
        return new.tool if tool is None else tool.spec

    async def _effects_of(self, call: ToolCall, new: NextMessage) -> tuple[CallEffects, ...]:
        spec, readers = self._spec(call.name, new), self._sources.effects
        read = [await reader.effects_of(call, spec, new.scope) for reader in readers]
        return tuple([effects for effects in read if effects is not None])


def _of_prompt(new: NextMessage) -> Label:
    view, scope, role = new.view, new.scope, new.message.role
    if role == "user" and scope.lineage:
        label = Label(speaker="agent", name=scope.lineage[-1], is_trusted=True)
        return label.joined([view.task or UNSEEN])
    label = SYSTEM if role == "system" else _PERSON
    if new.message.metadata.get("made_by") == "model":
        return label.joined([view.label])
    # In the middle of a run it is a program's, which may have had it from a tool.
    follows_result = bool(view.texts) and view.texts[-1].role == "tool"
    if new.noted is None and (scope.turn or follows_result):
        return _with_quotes(label, new.texts, view)
    return label


def _answered_call(message: ToolMessage) -> ToolCall | None:
    """Return the call of a result as its tool got it, None if that is not recorded."""
    response = message.tool_response
    if response is None or response.parameters is None:
        return None
    call_id, name = message.tool_call_id, message.tool_name
    return ToolCall(id=call_id, name=name, arguments=response.parameters)


def _with_quotes(label: Label, texts: Sequence[str], view: SessionView) -> Label:
    """Return *label* joined with those of the texts in view that *texts* quote.

    A piece that a text without doubts has as well is not quoted from others. Texts of any length
    would take time: long ones count as quotes.
    """
    doubtful = view.doubts(label)
    if not doubtful or sum(map(len, texts)) > _LONGEST:
        return label.joined([text.label for text in doubtful])
    others = [text.index for text in view.sources if text not in doubtful]
    joined = [text.label for text in doubtful if not text.index.is_complete]
    for text in texts:
        quotes = find_quotes(text, [each.index for each in doubtful])
        known = find_quotes(text, others) if quotes else []
        joined += [
            doubtful[quote.number].label
            for quote in quotes
            if not any(each.start <= quote.start and quote.end <= each.end for each in known)
        ]
    return label.joined(joined)


def texts_of(message: Message) -> tuple[str, ...]:
    """Return the texts of *message*, first the one that its model reads."""
    match message:
        case AssistantMessage():
            texts = [text for call in message.tool_calls for text in _strings(call.arguments)]
            return (message.text, message.reasoning_text, *texts)
        case ToolMessage(tool_response=response) if response and response.structured is not None:
            # In the text of JSON they have escapes.
            return (message.text, *_strings(response.structured))
    return (message.text,)


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of the frozen JSON *value*, with the names of members."""
    match value:
        case str():
            yield value
        case tuple():
            for item in value:
                yield from _strings(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from _strings(item)


def _is_encoded(text: str) -> bool:
    """Return whether *text* has a decoded reading."""
    return len([*islice(readings_of(text), 2)]) > 1

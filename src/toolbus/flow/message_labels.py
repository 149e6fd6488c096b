"""Labels of messages: of prompts, of results by their tools, of answers by the texts in view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.flow.labels import PRIVATE, UNSEEN, Label
from toolbus.flow.quotes import find_quotes
from toolbus.flow.sources import ResultOrigin
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.redaction.placeholders import kinds_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.components.call_facts import FactSources
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.flow.session_views import SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message
    from toolbus.tools.definitions import Tool

_PRIVATE, _NONE = frozenset({PRIVATE}), frozenset[str]()
_LONGEST = 50_000
"""The most characters that are searched for quotes."""

_UNANSWERED = {
    **dict.fromkeys(["timeout", "cancelled", "interrupted"], True),
    **dict.fromkeys(["denied", "unknown_tool", "invalid_arguments"], False),
}
"""The statuses of calls whose tools did not make the results; True if the tool may have run."""

_PERSON = Label(speaker="person", is_trusted=True)
SYSTEM = Label(speaker="system", is_trusted=True)


class NextMessage(NamedTuple):
    """The next *message* in *view*, with its *texts* for the model, and the spec of its *tool*.

    It has a label already if it was *noted* in the ledger.
    """

    message: Message
    texts: tuple[str, ...]
    view: SessionView
    scope: Scope
    tool: ToolSpec | None = None
    noted: Label | None = None


class MessageLabeller:
    """Makes the labels of messages by *settings*, with facts from *host* and from *sources*."""

    def __init__(self, settings: FlowSettings, host: Host, sources: FactSources) -> None:
        self._settings, self._host, self._sources = settings, host, sources

    async def label(self, new: NextMessage) -> Label:
        """Return the label of *new*, joined with the noted one; note the downloads of its call."""
        message = new.message
        calls: Sequence[ToolCall] = ()
        if isinstance(message, ToolMessage):
            label = await self._of_result(message, new)
        elif isinstance(message, AssistantMessage):
            label, calls = new.view.label, message.tool_calls
        else:
            label = _of_prompt(new)
        for call in calls if len(calls) > 1 else ():
            # Of parallel calls one may read the file that another one downloads.
            await self._origins(call, new)
        kinds = frozenset([kind for text in new.texts for kind, _ in kinds_in(text)])
        if not kinds <= label.holds:
            label = replace(label, holds=label.holds | kinds)
        return label if new.noted is None else label.joined([new.noted])

    async def _of_result(self, message: ToolMessage, new: NextMessage) -> Label:
        call_id, name, view = message.tool_call_id, message.tool_name, new.view
        below = [view.below[call_id]] if call_id in view.below else []
        may_have_run = _UNANSWERED.get(view.outcomes.get(call_id, ""))
        tool, response = self._tool(name, new), message.tool_response
        if may_have_run is None and tool is not None and tool.delegates:
            label = Label(speaker="agent", name=name, is_trusted=True)
            return label.joined(below or [new.noted or UNSEEN])
        arguments = None if response is None else response.parameters
        call, origins = ToolCall(id=call_id, name=name, arguments=arguments or EMPTY), []
        if may_have_run is not False:
            origins = await self._origins(call, new, is_recorded=arguments is not None)
        if may_have_run is not None and (response is None or response.is_error):
            return SYSTEM.joined(below)
        label = Label(
            speaker="tool",
            name=name,
            server="" if tool is None else self._host.tools.source_of(name) or "",
            is_trusted=bool(origins) and all(each.is_trusted(self._settings) for each in origins),
            holds=_PRIVATE if any(each.is_private(self._settings) for each in origins) else _NONE,
        ).joined(below)
        if label.is_trusted and new.noted is None:
            return _with_quotes(label, new.texts, view)
        return label

    def _tool(self, name: str, new: NextMessage) -> Tool | None:
        # The host knows the tools of its agent, but not those of the agents below.
        return None if new.scope.lineage else self._host.tools.get(name)

    async def _origins(
        self, call: ToolCall, new: NextMessage, *, is_recorded: bool = True
    ) -> list[ResultOrigin]:
        """Return the origin of a result by each reading of its effects; note its downloads."""
        tool, scope, root = self._tool(call.name, new), new.scope, new.view.root
        spec = new.tool if tool is None else tool.spec
        is_closed = False
        if spec is not None and spec.annotations.get("openWorldHint") is False:
            is_closed = any(pins.is_pinned(spec, scope) for pins in self._sources.pins)
        readers = self._sources.effects if is_recorded else ()
        read = [await reader.effects_of(call, spec, scope) for reader in readers]
        origins = [
            ResultOrigin(call, scope, new.texts[0], effects, root.downloads, is_closed=is_closed)
            for effects in {*read} - {None} or {None}
        ]
        root.downloads |= frozenset().union(*[each.downloaded(self._settings) for each in origins])
        return origins


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


def _with_quotes(label: Label, texts: Sequence[str], view: SessionView) -> Label:
    """Return *label* joined with those of the texts in view that *texts* quote.

    A piece that a text without doubts has as well is not quoted from others. Texts of any length
    would take time: long ones count as quotes.
    """
    doubtful = view.doubts(label)
    if not doubtful or sum(map(len, texts)) > _LONGEST:
        return label.joined([text.label for text in doubtful])
    others = [text.index for text in view.sources if label.joined([text.label]) is label]
    joined = [text.label for text in doubtful if not text.index.is_complete]
    for text in texts:
        quotes = find_quotes(text, [each.index for each in doubtful])
        known = find_quotes(text, others, exactly=True) if quotes else []
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
            texts = [text for call in message.tool_calls for text in strings_of(call.arguments)]
            return (message.text, message.reasoning_text, *texts)
        case ToolMessage(tool_response=response) if response and response.structured is not None:
            # In the text of JSON they have escapes.
            return (message.text, *strings_of(response.structured))
    return (message.text,)


def strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of the frozen JSON *value*, with the names of members."""
    match value:
        case str():
            yield value
        case tuple():
            for item in value:
                yield from strings_of(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from strings_of(item)

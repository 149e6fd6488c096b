"""Labels of messages: of prompts, of results by their tools, of answers by the texts in view."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, UNSEEN, Label
from toolbus.flow.quotes import find_quotes
from toolbus.flow.sources import ResultOrigin
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.redaction.placeholders import kinds_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from toolbus.components.call_facts import CallEffects, FactSources
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.flow.session_views import SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message
    from toolbus.tools.definitions import Tool

logger = logging.getLogger("toolbus")

Effects: TypeAlias = "Mapping[str, Collection[CallEffects | None]]"
"""The effects of calls by their ids, as components have read them."""

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

    @property
    def reads_effects(self) -> bool:
        """Whether a component reads the effects of calls."""
        return bool(self._sources.effects)

    def add_tools(self, view: SessionView, scope: Scope) -> None:
        """Add the texts of the tools of servers: without a pin a stranger may have written them."""
        tools = self._host.tools
        # The tools of agents below are not known here.
        for spec in () if scope.lineage else tools.specs:
            server, name = tools.source_of(spec.name), spec.name
            if not server or view.tools.get(name) == spec:
                continue
            is_pinned = any(pins.is_pinned(spec, scope) for pins in self._sources.pins)
            is_trusted = is_pinned or matches(self._settings.trusted_tools, name)
            label = Label(speaker="tool", name=name, server=server, is_trusted=is_trusted)
            texts = (
                spec.description,
                *strings_of(spec.input_schema),
                *strings_of(spec.annotations),
            )
            view.add_tool(spec, label, texts)

    async def add(self, new: NextMessage) -> Label:
        """Add *new* to its view after components have read the effects of its calls."""
        effects: dict[str, set[CallEffects | None]] = {}
        readers, scope = self._sources.effects, new.scope
        try:
            for call in _calls_of(new) if readers else ():
                spec = self._spec(call.name, new)
                read = [await reader.effects_of(call, spec, scope) for reader in readers]
                effects[call.id] = {*read} - {None}
        except Exception as error:  # noqa: BLE001 - no error trusts a text
            return _add(new, _unseen(new, error))
        return self.add_now(new, effects)

    def add_now(self, new: NextMessage, effects: Effects = EMPTY) -> Label:
        """Add *new* to its view, and return its label; note the downloads of its calls."""
        try:
            label = self._label(new, effects)
        except Exception as error:  # noqa: BLE001 - as above
            label = _unseen(new, error)
        return _add(new, label)

    def _label(self, new: NextMessage, effects: Effects) -> Label:
        message, label = new.message, new.view.label
        if isinstance(message, ToolMessage):
            label = self._of_result(message, new, effects)
        elif isinstance(message, AssistantMessage):
            for call in message.tool_calls if effects else ():
                self._origins(call, new, effects)
        else:
            label = _of_prompt(new)
        kinds = {kind for text in new.texts for kind, _ in kinds_in(text)}
        if not kinds <= label.holds:
            label = replace(label, holds=label.holds | kinds)
        return label if new.noted is None else label.joined([new.noted])

    def _of_result(self, message: ToolMessage, new: NextMessage, effects: Effects) -> Label:
        name, view = message.tool_name, new.view
        below = [view.below[call_id]] if (call_id := message.tool_call_id) in view.below else []
        may_have_run = _UNANSWERED.get(view.outcomes.get(call_id, ""))
        tool, response = self._tool(name, new), message.tool_response
        if may_have_run is None and tool is not None and tool.delegates:
            label = Label(speaker="agent", name=name, is_trusted=True)
            return label.joined(below or [new.noted or UNSEEN])
        call, origins = _answered_call(message), []
        if may_have_run is not False:
            origins = self._origins(call, new, effects)
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
            return _with_quotes(label, new)
        return label

    def _tool(self, name: str, new: NextMessage) -> Tool | None:
        # The host knows the tools of its agent, but not those of the agents below.
        return None if new.scope.lineage else self._host.tools.get(name)

    def _spec(self, name: str, new: NextMessage) -> ToolSpec | None:
        tool = self._tool(name, new)
        return new.tool if tool is None else tool.spec

    def _origins(self, call: ToolCall, new: NextMessage, effects: Effects) -> list[ResultOrigin]:
        """Return the origin of a result by each reading of its effects; note its downloads."""
        spec, root, is_closed = self._spec(call.name, new), new.view.root, False
        if spec is not None and spec.annotations.get("openWorldHint") is False:
            is_closed = any(pins.is_pinned(spec, new.scope) for pins in self._sources.pins)
        origins = [
            ResultOrigin(call, new.scope, new.texts[0], each, root.downloads, is_closed=is_closed)
            for each in effects.get(call.id) or {None}
        ]
        for origin in origins if effects else ():
            root.downloads |= origin.downloaded(self._settings)
        return origins


def _calls_of(new: NextMessage) -> Sequence[ToolCall]:
    """Return the calls of *new* that may matter for a label: parallel ones, and one that ran."""
    match new.message:
        case AssistantMessage(tool_calls=calls) if len(calls) > 1:
            # One may read the file that another one downloads.
            return calls
        case ToolMessage(tool_response=response) as message if response is not None:
            has_run = _UNANSWERED.get(new.view.outcomes.get(message.tool_call_id, "")) is not False
            return [_answered_call(message)] if has_run and response.parameters is not None else ()
    return ()


def _answered_call(message: ToolMessage) -> ToolCall:
    response = message.tool_response
    arguments = None if response is None else response.parameters
    return ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=arguments or EMPTY)


def _unseen(new: NextMessage, error: Exception) -> Label:
    logger.warning("message %r has no label: %s", new.message.id, type(error).__name__)
    return UNSEEN


def _add(new: NextMessage, label: Label) -> Label:
    new.view.add(new.message, label, new.texts)
    return label


def _of_prompt(new: NextMessage) -> Label:
    view, scope, role = new.view, new.scope, new.message.role
    if role == "user" and scope.lineage:
        label = Label(speaker="agent", name=scope.lineage[-1], is_trusted=True)
        return label.joined([view.task or UNSEEN])
    label = SYSTEM if role == "system" else _PERSON
    if new.message.metadata.get("made_by") == "model":
        return label.joined([view.label])
    # In the middle of a run, or beside its prompt, it is a program's, which may have had it from a
    # tool.
    follows_result = bool(view.texts) and view.texts[-1].role == "tool"
    is_program_s = scope.turn or follows_result or view.prompt not in {None, new.message.content}
    return _with_quotes(label, new) if new.noted is None and is_program_s else label


def _with_quotes(label: Label, new: NextMessage) -> Label:
    """Return *label* joined with those of the texts in view that *new* quotes.

    A piece that a text without doubts has as well is not quoted from others. Texts of any length
    would take time: long ones count as quotes.
    """
    doubtful = new.view.doubts(label)
    if not doubtful or sum(map(len, new.texts)) > _LONGEST:
        return label.joined([text.label for text in doubtful])
    joined = [text.label for text in doubtful if not text.index.is_complete]
    for text in new.texts:
        if quotes := find_quotes(text, [each.index for each in doubtful]):
            others = [each for each in new.view.sources if label.joined([each.label]) is label]
            known = find_quotes(text, [each.index for each in others], exactly=True)
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
        case ToolMessage(tool_response=response) if response is not None:
            resources = [part.resource for part in response.content if part.type == "resource"]
            # In the text of JSON strings have escapes. A blob is decoded with the other texts.
            blobs = [resource.blob or "" for resource in resources]
            return (message.text, *strings_of(response.structured), *blobs)
    return (message.text,)


def strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of the frozen JSON *value*, with the names of members."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case tuple() as items:
                waiting += reversed(items)
            case dict() as members:
                waiting += [each for member in reversed(members.items()) for each in member[::-1]]

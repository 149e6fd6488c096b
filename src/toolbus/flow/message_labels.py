"""Labels of messages: of prompts, of results by their tools, of answers by the texts in view."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.flow.decoded_texts import readings_of
from toolbus.flow.labels import UNSEEN, Label
from toolbus.flow.quotes import find_quotes
from toolbus.flow.sources import ResultOrigin
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.redaction.placeholders import kinds_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.components.call_facts import CallEffects, FactSources
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.flow.session_views import LabelledText, SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message

_PERSON = Label(speaker="person", is_trusted=True)
SYSTEM = Label(speaker="system", is_trusted=True)
_LONG = 100_000
"""Characters of a result that is searched for quotes in a thread."""


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
        message, view = new.message, new.view
        if isinstance(message, AssistantMessage):
            label = view.label
            await self._note_parallel_downloads(message.tool_calls, view, new.scope)
        elif isinstance(message, ToolMessage):
            label = await self._of_result(message, new)
        else:
            label = await self._of_prompt(new)
        kinds = frozenset([kind for text in new.texts for kind, _ in kinds_in(text)])
        if not kinds <= label.holds:
            label = replace(label, holds=label.holds | kinds)
        return label if new.noted is None else label.joined([new.noted])

    async def _of_prompt(self, new: NextMessage) -> Label:
        view, scope = new.view, new.scope
        if new.message.role == "user" and scope.lineage:
            label = Label(speaker="agent", name=scope.lineage[-1], is_trusted=True)
            return label.joined([UNSEEN if view.task is None else view.task])
        label = SYSTEM if new.message.role == "system" else _PERSON
        if new.message.metadata.get("made_by") == "model":
            return label.joined([view.label])
        # In the middle of a run it is a program's, which may have had it from a tool.
        if new.noted is None and (scope.turn or view.follows_result):
            return await self._with_quotes(label, new.texts, view)
        return label

    async def _of_result(self, message: ToolMessage, new: NextMessage) -> Label:
        view, call_id, response = new.view, message.tool_call_id, message.tool_response
        below = view.below.get(call_id)
        local = None if new.scope.lineage else self._host.tools.get(message.tool_name)
        if local is not None and local.delegates and call_id not in view.unanswered:
            label = Label(speaker="agent", name=message.tool_name, is_trusted=True)
            return label.joined([below or new.noted or UNSEEN])
        origin = await self._origin(message, new, local.spec if local and not new.tool else new.tool)
        may_have_run = view.unanswered.get(call_id)
        if may_have_run is not False:
            view.root.downloads |= origin.downloaded(self._settings)
        if may_have_run is None or not (response is None or response.is_error):
            label = origin.label(self._settings)
            if label.is_trusted and new.noted is None:
                encoded = [
                    text
                    for text in map(str, origin.arguments.values())
                    if view.doubts(label) and _is_encoded(text)
                ]
                label = await self._with_quotes(label, (*new.texts, *encoded), view)
        else:
            label = SYSTEM
        return label if below is None else label.joined([below])

    async def _note_parallel_downloads(
        self, calls: Sequence[ToolCall], view: SessionView, scope: Scope
    ) -> None:
        """Note the downloads of parallel *calls*, of which one may read the file of another."""
        for call in calls if len(calls) > 1 and self._sources.effects else ():
            local = None if scope.lineage else self._host.tools.get(call.name)
            effects = await self.effects_of(call, local.spec if local else None, scope)
            origin = ResultOrigin(call.name, "", call.arguments, scope, effects=effects)
            view.root.downloads |= origin.downloaded(self._settings)

    async def _origin(
        self, message: ToolMessage, new: NextMessage, spec: ToolSpec | None
    ) -> ResultOrigin:
        scope, response, effects = new.scope, message.tool_response, None
        arguments: Any = None if response is None else response.parameters
        if arguments is not None and self._sources.effects:
            call = ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=arguments)
            effects = await self.effects_of(call, spec, scope)
        pins = self._sources.pins
        is_closed = (
            bool(pins)
            and spec is not None
            and spec.annotations.get("openWorldHint") is False
            and any(each.is_pinned(spec, scope) for each in pins)
        )
        return ResultOrigin(
            name=message.tool_name,
            server="" if scope.lineage else self._host.tools.source_of(message.tool_name) or "",
            arguments=EMPTY if arguments is None else arguments,
            scope=scope,
            text=new.texts[0],
            effects=effects,
            is_closed=is_closed,
            downloads=new.view.root.downloads,
        )

    async def effects_of(
        self, call: ToolCall, spec: ToolSpec | None, scope: Scope
    ) -> CallEffects | None:
        """Return the effects of *call* as the components read them; None without one."""
        all_effects = [
            effects
            for reader in self._sources.effects
            if (effects := await reader.effects_of(call, spec, scope)) is not None
        ]
        if len(all_effects) < 2:  # noqa: PLR2004 - as nearly always
            return all_effects[0] if all_effects else None
        first = all_effects[0]
        return first._replace(
            does=frozenset[str]().union(*[each.does for each in all_effects]),
            hosts=tuple([host for each in all_effects for host in each.hosts]),
            reads=tuple([path for each in all_effects for path in each.reads]),
            writes=tuple([path for each in all_effects for path in each.writes]),
            is_known=all(each.is_known for each in all_effects),
        )

    async def _with_quotes(self, label: Label, texts: Sequence[str], view: SessionView) -> Label:
        """Return *label* joined with those of the texts in view that *texts* quote."""
        doubtful = view.doubts(label)
        if not doubtful:
            return label
        others = [text for text in view.sources if text not in doubtful]
        if sum(map(len, texts)) > _LONG:
            return await asyncio.to_thread(_join_quoted, label, texts, doubtful, others)
        return _join_quoted(label, texts, doubtful, others)


def _join_quoted(
    label: Label,
    texts: Sequence[str],
    doubtful: Sequence[LabelledText],
    others: Sequence[LabelledText],
) -> Label:
    """Return *label* joined with those of the *doubtful* sources that *texts* quote.

    A piece that one of the *others* has as well is not quoted from the doubtful one.
    """
    joined = [text.label for text in doubtful if not text.index.is_complete]
    for text in texts:
        quotes = find_quotes(text, [each.index for each in doubtful])
        known = find_quotes(text, [each.index for each in others]) if quotes else []
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

"""Labels of messages: of prompts, of results by their tools, of answers by the texts in view."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.events.subjects import matches
from toolbus.flow.labels import PRIVATE, UNSEEN, Label, strings_of
from toolbus.flow.quotes import covers, find_quotes, vouched_quotes
from toolbus.flow.session_views import LabelledText
from toolbus.flow.sources import ResultOrigin
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.redaction.placeholders import kinds_in
from toolbus.transcript.admission import parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.components.call_facts import FactSources
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.flow.session_views import SessionView
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message
    from toolbus.tools.definitions import Tool

logger = logging.getLogger("toolbus")

_LONGEST = 50_000
"""The most characters that are searched for quotes."""

_NOT_RUN = frozenset({"denied", "pending", "unknown_tool", "invalid_arguments"})
_UNANSWERED = _NOT_RUN | {"timeout", "cancelled", "interrupted"}
"""The statuses of calls whose tools did not make the results, though they may have run."""

_PERSON = Label(speaker="person", is_trusted=True)
SYSTEM = Label(speaker="system", is_trusted=True)


class NextMessage(NamedTuple):
    """The next *message* in *view*, with its *texts*, its *tool*, and the label *noted* before."""

    message: Message
    texts: tuple[str, ...]
    view: SessionView
    scope: Scope
    tool: ToolSpec | None
    noted: Label | None


class MessageLabeller:
    """Makes the labels of messages by *settings*, with facts from *host* and from *sources*."""

    def __init__(self, settings: FlowSettings, host: Host, sources: FactSources) -> None:
        self._settings, self._host, self._sources = settings, host, sources

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
            text = LabelledText(
                source=f"the description of {name} of {server}",
                message_id=f"tool-{name}-{len(view.texts)}",  # A former one stays in view.
                label=label,
                texts=tuple(strings_of((spec.description, spec.input_schema, spec.annotations))),
            )
            view.tools[name] = spec
            view.add_text(text)

    async def add(
        self,
        message: Message,
        view: SessionView,
        scope: Scope,
        tool: ToolSpec | None = None,
        noted: Label | None = None,
    ) -> Label:
        """Add *message* to *view*, and return its label; no error trusts a text."""
        new = NextMessage(message, texts_of(message), view, scope, tool, noted)
        try:
            label = await self._label(new)
        except Exception as error:  # noqa: BLE001 - as said above
            logger.warning("message %r has no label: %s", message.id, type(error).__name__)
            label = UNSEEN
        view.add(message, label, new.texts)
        return label

    async def _label(self, new: NextMessage) -> Label:
        label = new.view.label
        match new.message:
            case ToolMessage() as message:
                label = await self._of_result(message, new)
            case AssistantMessage(tool_calls=calls):
                # Of parallel calls one may read the file that another one downloads.
                for call in calls if len(calls) > 1 else ():
                    await self._origins(call, new)
            case _:
                label = _of_prompt(new)
        kinds = {kind for text in new.texts for kind, _ in kinds_in(text)}
        if not kinds <= label.holds:
            label = replace(label, holds=label.holds | kinds)
        return label if new.noted is None else label.joined([new.noted])

    async def _of_result(self, message: ToolMessage, new: NextMessage) -> Label:
        call_id, name, view = message.tool_call_id, message.tool_name, new.view
        below = [view.below[call_id]] if call_id in view.below else []
        status, tool = view.outcomes.get(call_id, ""), self._tool(name, new)
        if tool is not None and tool.delegates and status not in _UNANSWERED:
            holds = [PRIVATE] if matches(self._settings.private_tools, name) else []
            label = Label(speaker="agent", name=name, is_trusted=True, holds=frozenset(holds))
            return label.joined(below or [new.noted or UNSEEN])
        call = ToolCall(id=call_id, name=name, arguments=parameters_of(message) or EMPTY)
        origins = [] if status in _NOT_RUN else await self._origins(call, new)
        # The runner words the result of a call whose tool has not answered.
        if status in _UNANSWERED and (response := message.tool_response) and response.is_error:
            return SYSTEM.joined(below)
        is_private = any(each.is_private(self._settings) for each in origins)
        label = Label(
            speaker="tool",
            name=name,
            server="" if tool is None else self._host.tools.source_of(name) or "",
            is_trusted=bool(origins) and all(each.is_trusted(self._settings) for each in origins),
            holds=frozenset([PRIVATE] if is_private else ()),
        ).joined(below)
        return label if new.noted else _with_quotes(label, new)

    def _tool(self, name: str, new: NextMessage) -> Tool | None:
        # The host knows the tools of its agent, but not those of the agents below.
        return None if new.scope.lineage else self._host.tools.get(name)

    async def _origins(self, call: ToolCall, new: NextMessage) -> list[ResultOrigin]:
        """Return the origin of a result by each reading of its effects; note its downloads."""
        tool, scope, root = self._tool(call.name, new), new.scope, new.view.root
        spec, is_closed = new.tool if tool is None else tool.spec, False
        if spec is not None and spec.annotations.get("openWorldHint") is False:
            is_closed = any(pins.is_pinned(spec, scope) for pins in self._sources.pins)
        read = {await reader.effects_of(call, spec, scope) for reader in self._sources.effects}
        origins = [
            ResultOrigin(call, scope, new.texts[0], effects, root.downloads, is_closed=is_closed)
            for effects in read - {None} or {None}
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
        return view.label
    return _with_quotes(label, new) if new.noted is None and _is_added(new) else label


def _is_added(new: NextMessage) -> bool:
    """Return whether a program added *new* in a run, or beside its prompt: maybe a tool's text."""
    texts, prompt = new.view.texts, new.view.prompt
    follows_result = bool(texts) and texts[-1].role == "tool"
    return bool(new.scope.turn) or follows_result or prompt not in {None, new.message.content}


def _with_quotes(label: Label, new: NextMessage) -> Label:
    """Return *label* joined with those of the texts in view that *new* quotes.

    A piece that a text without doubts has as well is not quoted from others. Texts of any length
    would take time: long ones count as quotes.
    """
    doubtful = new.view.doubts(label) if label.is_trusted else []
    if not doubtful or sum(map(len, new.texts)) > _LONGEST:
        return label.joined([text.label for text in doubtful])
    incomplete = [text.label for text in doubtful if not text.index.is_complete]
    others = [each for each in new.view.sources if not each.label.lowers(label)]
    quoted = [each for text in new.texts for each in _quoted_texts(text, doubtful, others)]
    return label.joined([*incomplete, *[text.label for text in quoted]])


def _quoted_texts(
    text: str, doubtful: Sequence[LabelledText], others: Sequence[LabelledText]
) -> Iterator[LabelledText]:
    """Yield the *doubtful* texts that *text* quotes, but for pieces that *others* have as well."""
    if quotes := find_quotes(text, [each.index for each in doubtful]):
        known = find_quotes(text, [each.index for each in others])
        is_known = covers(vouched_quotes(known, text, others))
        yield from [doubtful[each.number] for each in quotes if not is_known(each)]


def texts_of(message: Message) -> tuple[str, ...]:
    """Return the texts of *message*, first the one that its model reads."""
    match message:
        case AssistantMessage():
            arguments = tuple([call.arguments for call in message.tool_calls])
            return (message.text, message.reasoning_text, *strings_of(arguments))
        case ToolMessage(tool_response=response) if response is not None:
            resources = [part.resource for part in response.content if part.type == "resource"]
            # In the text of JSON strings have escapes. A blob is decoded with the other texts.
            blobs = [resource.blob or "" for resource in resources]
            return (message.text, *strings_of(response.structured), *blobs)
    return (message.text,)

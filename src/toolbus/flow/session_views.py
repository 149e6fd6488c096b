"""Session views: the labelled texts of a session in order, and those in view of each call."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

from msgspec import Struct

from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.flow.carried_values import pieces_of_secrets
from toolbus.flow.labels import UNSEEN, Label, read_label
from toolbus.flow.named_addresses import addresses_in
from toolbus.flow.quotes import QuoteIndex
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.parts import Part
    from toolbus.messages.records import Message

NOTE = "label"
"""The name of the ledger's note with a label."""

_REFUSING = {TOOL_CALL_BEFORE.name, MESSAGE_APPEND_BEFORE.name}
_MODEL = Label(speaker="model", is_trusted=True)
_DROPPED = QuoteIndex(())
_DROPPED.is_complete = False


class LabelledText(Struct, kw_only=True, eq=False, dict=True):
    """The *texts* of one message with its *label*, said by *source*, "the result of web_fetch".

    It *is_source* unless its own sources are in view as well, as those of the session's own model
    are: then pieces of calls are not searched in it.
    """

    source: str
    message_id: str = ""
    role: str = "unknown"
    label: Label = UNSEEN
    texts: tuple[str, ...] = ()
    is_source: bool = True

    @cached_property
    def index(self) -> QuoteIndex:
        """The pieces of the texts; the first access takes time."""
        return QuoteIndex(self.texts)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The pieces of the secrets in the texts; the first access takes time."""
        return frozenset[str]().union(*map(pieces_of_secrets, self.texts))

    @cached_property
    def addresses(self) -> frozenset[str]:
        """The hosts, mailboxes and accounts in the texts."""
        return frozenset[str]().union(*map(addresses_in, self.texts))

    def drop(self) -> int:
        """Drop all but the secrets, so that any call may quote the texts; return their size."""
        self.index, self.secrets, self.addresses = _DROPPED, self.secrets, frozenset()
        dropped, self.texts = sum(map(len, self.texts)), ()
        return dropped


class RootFacts:
    """The facts that a session shares with the sessions of its sub-agents.

    These are the texts of the person, the absolute paths of downloaded files, and the views: a file
    that one agent writes, another one reads.
    """

    def __init__(self) -> None:
        self.views: WeakSet[SessionView] = WeakSet()
        self.person_texts: list[str] = []
        self.downloads: frozenset[str] = frozenset()


class SessionView:
    """The labelled texts of one session in order.

    *task* is the label of the texts in view of the agent above; *below* has those of sub-agents,
    by the call that runs them. *outcomes* has the statuses of calls that ended in this process.
    Beyond *most_characters* the oldest texts are dropped.
    """

    most_characters = 16_000_000

    def __init__(self, root: RootFacts | None = None, task: Label | None = None) -> None:
        self.texts: list[LabelledText] = []
        self.root, self.task = root or RootFacts(), task
        self.root.views.add(self)
        self.below: dict[str, Label] = {}
        self.tools: dict[str, ToolSpec] = {}
        self.prompt: str | tuple[Part, ...] | None = None
        self.outcomes: dict[str, str] = {}
        self.label = _MODEL
        """The label of a text that the session's model makes now."""
        self.characters = 10_000  # What a view without texts takes.
        self._calls: dict[str, int] = {}
        self.by_id: dict[str, LabelledText] = {}
        self._firsts: dict[str, int] = {}
        self.doubtful: list[LabelledText] = []
        """The sources with any label."""
        self._dropped = 0
        self._lock = threading.Lock()

    @property
    def sources(self) -> list[LabelledText]:
        """The texts in which pieces of calls are searched."""
        return [text for text in self.texts if text.is_source]

    def doubts(self, label: Label) -> list[LabelledText]:
        """Return the sources, in all views of the root, that add a doubt or a kind to *label*."""
        texts = [text for view in [*self.root.views] for text in view.doubtful]
        return [text for text in texts if text.label.lowers(label)]

    def before(self, call_id: str) -> Sequence[LabelledText]:
        """Return the texts in view when the message with the call *call_id* was made.

        A call without such a message is judged by all texts so far.
        """
        return self.texts[: self._calls.get(call_id, len(self.texts))]

    def labels_before(self, call_id: str) -> dict[str, str]:
        """Return the names of the labels of these texts, each with its first source."""
        end = self._calls.get(call_id, len(self.texts))
        return {
            name: self.texts[first].source for name, first in self._firsts.items() if first < end
        }

    def label_before(self, call_id: str) -> Label:
        """Return the label of a text made in view of the same texts."""
        return _MODEL.joined([text.label for text in self.before(call_id) if text.is_source])

    def add(self, message: Message, label: Label, texts: tuple[str, ...]) -> None:
        """Add *message* with its *texts*."""
        is_answer = isinstance(message, AssistantMessage)
        if isinstance(message, AssistantMessage):
            self._calls.update({call.id: len(self.texts) for call in message.tool_calls})
        # A refusal may quote the arguments of its call, which it must not vouch for.
        is_refusal = label.speaker == "system" and isinstance(message, ToolMessage)
        text = LabelledText(
            source=_source_of(message, label),
            message_id=message.id,
            role=message.role,
            label=label,
            texts=() if is_answer else texts,
            is_source=not (is_answer or is_refusal),
        )
        self.add_text(text)
        if isinstance(message, UserMessage) and label.speaker == "person" and label.is_trusted:
            self.root.person_texts.extend(texts)

    def add_lost(self, source: str) -> None:
        """Add texts of *source* that cannot be read any more: any call may quote them."""
        lost = LabelledText(source=source, message_id="lost")
        lost.drop()
        self.add_text(lost)

    def add_text(self, added: LabelledText) -> None:
        """Add a text; one with the same id is replaced, and the labels joined."""
        with self._lock:  # Parallel calls may end in threads with loops of their own.
            number = len(self.texts)
            if (former := self.by_id.get(added.message_id)) is not None:
                number = self.texts.index(former)
                added.label = added.label.joined([former.label])
                added.is_source = added.is_source or former.is_source
            self.texts[number : number + 1] = [added]
            self.by_id[added.message_id] = added
            self.characters += sum(map(len, added.texts))
            while self.characters > self.most_characters and self._dropped < len(self.texts) - 1:
                self.characters -= self.texts[self._dropped].drop()
                self._dropped += 1
            if added.is_source and (names := added.label.names):
                self.label = self.label.joined([added.label])
                self.doubtful.append(added)
                for name in names:
                    self._firsts[name] = min(number, self._firsts.get(name, number))


class RecordedLabels:
    """The labels in the ledger *records* of a session, by message.

    *refused* has the ids of calls whose messages are refusals, of the call or of its result.
    """

    def __init__(self, records: Iterable[DispatchRecord] = ()) -> None:
        self.labels: dict[str, Label] = {}
        self.refused: set[str] = set()
        for record in records:
            if record.outcome in {"denied", "rejected"} and record.event in _REFUSING:
                self.refused.add(record.call_id)
            for entry in record.entries:
                if entry.name == NOTE and entry.reason is not None:
                    noted = read_label(entry.reason)
                    former = self.labels.get(record.subject, noted)
                    self.labels[record.subject] = noted.joined([former])
                    if noted.speaker == "system":
                        self.refused.add(record.call_id)
        self.refused.discard("")


def _source_of(message: Message, label: Label) -> str:
    """Return the source of *message* in a person's words."""
    if isinstance(message, ToolMessage):
        return f"the result of {message.tool_name}" + (
            f" of {label.server}" if label.server else ""
        )
    if isinstance(message, UserMessage):
        names = {"agent": "the task of an agent", "model": "a text by a model"}
        return names.get(label.speaker, "the prompt")
    return "the model's message" if message.role == "assistant" else "the system message"

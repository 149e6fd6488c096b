"""Facts about the words and effects of calls, which components tell each other by protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall


class QuotedPiece(NamedTuple):
    """A *text* of a call from a message before it, said by *source*.

    *labels* are the labels of the message, such as "untrusted" and "private"; *message_id* is "" if
    the message is not known.
    """

    text: str
    source: str
    labels: frozenset[str]
    message_id: str = ""


class CallFacts(Protocol):
    """The facts about the words of one call, for rules: where they came from."""

    @property
    def in_view(self) -> Mapping[str, str]:
        """The labels of all texts that the model had in view, each with its first source."""

    def quoted(self, text: str) -> Sequence[QuotedPiece]:
        """Return the pieces of *text*, also encoded pieces, from the texts in view."""

    def carried(self, text: str) -> Mapping[str, str]:
        """Return the kinds of values in *text*, such as "iban" or "private", with their origins."""

    def is_named(self, address: str) -> bool:
        """Return whether a person named *address*, a host or a recipient, or trusts it."""
        ...


@runtime_checkable
class CallFactSource(Protocol):
    """A component with facts about the words of calls; it changes no message."""

    async def facts_of(self, ctx: EventContext[ToolCall]) -> CallFacts | None:
        """Return the facts of the call of *ctx*; None while it knows none."""
        ...


@runtime_checkable
class SessionKeeper(Protocol):
    """A component with a part of each session's record in memory."""

    def forget_session(self, session_id: str) -> None:
        """Forget the texts of a session: they are read again from the record."""
        ...


class CallEffects(NamedTuple):
    """The effects of a call, as a policy reads them: its acts, with *hosts* and files.

    *does* is a set of read, write, network, destroy, run-code and message. It *is_known* if no part
    of the call is unknown before it runs. The path of a folder searched as a whole ends in "/**".
    """

    does: frozenset[str]
    hosts: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    is_known: bool = False
    writes: tuple[str, ...] = ()


class EffectReader(Protocol):
    """A reader of the effects of calls."""

    async def effects_of(
        self, call: ToolCall, tool: ToolSpec | None, scope: Scope
    ) -> CallEffects | None:
        """Return the effects of *call*; None if the component does not judge it."""
        ...


class PinReader(Protocol):
    """A component with the pins of tools."""

    def is_pinned(self, spec: ToolSpec, scope: Scope) -> bool:
        """Return whether the tool of *spec* equals its pin."""
        ...


class FactSources(Struct):
    """The components on a bus with facts about calls: `bus.shared(FactSources)`."""

    pins: list[PinReader] = []
    facts: list[CallFactSource] = []
    effects: list[EffectReader] = []


@runtime_checkable
class PartialHost(Protocol):
    """A host with texts in view of its models, and out of sight of its components."""

    @property
    def unseen_texts(self) -> str:
        """The texts unseen by components, as the noun of a sentence."""
        ...


def describe_unseen(texts: str) -> str:
    """Return the meaning of unseen *texts* for rules, as a sentence for a person."""
    return (
        f"not seen: {texts}; they are unknown, which counts as untrusted, so rules with `in_view` "
        "hold for every call, and rules with `from` only for words of the texts that are seen"
    )

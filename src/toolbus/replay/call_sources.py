"""The sources of a call as data: the texts in view, and the origin of each piece of an argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolbus.flow.named_addresses import URL
from toolbus.redaction.placeholders import placeholders_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.components.call_facts import CallFacts
    from toolbus.flow.session_views import LabelledText
    from toolbus.messages.records import ToolCall

SourceSection: TypeAlias = "tuple[str, str, tuple[SourceEntry, ...]]"
_MOST, _LONGEST = 200, 400
"""The most entries of a list, and the most characters of a text or a path."""

_UNSEARCHED = "this text is too long to be searched whole"
_NOT_COMPARED = "no text in view, so it could not be compared"
_LEAST_DIGITS = 8
_ADDRESS = re.compile(
    URL.pattern + r"|(?<![\w.!#$%&*+/=?^{|}~-])[\w.!#$%&*+/=?^{|}~-]{1,64}@[\w.-]{1,253}\w"
)
_ENDS = ".,;:!?)]}"


class SourceEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A *text* in view, or a text of the argument at the path *argument* with its *source*.

    *labels* are the labels of the *message* for rules. A long text is cut.
    """

    argument: str = ""
    text: str
    source: str = ""
    labels: tuple[str, ...] = ()
    message: str = ""

    @property
    def name(self) -> str:
        """The argument, or the source of a text in view."""
        return self.argument or self.source

    @property
    def note(self) -> str:
        """The source of a piece, and the labels."""
        labels = ", ".join(self.labels)
        if not (self.argument and self.source):
            return labels
        return f"from {self.source}" + (f" ({labels})" if labels else "")


class CallSources(Struct, frozen=True, kw_only=True):
    """The sources of the call *id*, whose model had *texts* texts in view.

    *labelled_now* counts the texts without a stored label, and *in_view* has the texts with a label
    for rules. *unnamed* are addresses not named by a person, *hidden* placeholders of hidden
    values, each with a message in view of the same. *is_cut*: a list is longer than here.
    """

    id: str
    tool: str
    texts: int
    labelled_now: int = 0
    in_view: tuple[SourceEntry, ...] = ()
    pieces: tuple[SourceEntry, ...] = ()
    carries: tuple[SourceEntry, ...] = ()
    unnamed: tuple[SourceEntry, ...] = ()
    hidden: tuple[SourceEntry, ...] = ()
    is_cut: bool = False


def sections_of(sources: CallSources) -> list[SourceSection]:
    """Return *sources* as sections for people: each a title, a note and entries."""
    count = f"{sources.texts:,} text{'' if sources.texts == 1 else 's'}"
    trusted = "" if sources.in_view or not sources.texts else ", all of them trusted"
    lists = [
        ("values that it carries", sources.carries),
        ("addresses that no person named", sources.unnamed),
        ("values that are hidden in the record", sources.hidden),
    ]
    shown = [(title, "", entries) for title, entries in lists if entries]
    cut = [(f"longer lists are cut to {_MOST} entries", "", ())] if sources.is_cut else []
    return [
        ("in view of the model", f"{count}{trusted}", sources.in_view),
        ("pieces that stand in these texts", "" if sources.pieces else "none", sources.pieces),
        *shown,
        *cut,
    ]


def sources_of(call: ToolCall, view: Sequence[LabelledText], facts: CallFacts) -> CallSources:
    """Return the sources of *call*, whose model had the texts of *view* before it."""
    texts = joined_texts(call)
    lists: dict[str, Iterable[SourceEntry]] = {
        "in_view": map(
            _text_in_view, [each for each in view if each.is_source and each.label.names]
        ),
        "pieces": _pieces(texts, facts),
        "carries": _carried(texts, facts),
        "unnamed": _unnamed(texts, facts),
        "hidden": _hidden(texts, view),
    }
    entries: Any = {name: tuple(islice(each, _MOST + 1)) for name, each in lists.items()}
    return CallSources(
        id=call.id,
        tool=call.name,
        texts=len(view),
        is_cut=any(len(each) > _MOST for each in entries.values()),
        **{name: each[:_MOST] for name, each in entries.items()},
    )


def argument_texts(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each string in the arguments of *call*, and of names in them.

    Arguments without valid JSON are a single text.
    """
    waiting: list[tuple[str, Any]] = [
        ("", call.arguments) if call.raw is None else ("the arguments", call.raw)
    ]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping | list | tuple):
            inner = _inside(path, value)
            waiting += reversed(inner)
            if path and isinstance(value, Mapping):
                yield from [
                    (f"{step} (name)", name) for (step, _), name in zip(inner, value, strict=True)
                ]
        # A long number may be an account or a card.
        elif isinstance(value, str) or len(str(value)) >= _LEAST_DIGITS:
            yield path, str(value)


def _inside(path: str, value: Mapping[str, Any] | Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the members or items of *value*, which stands at *path*, with their paths."""
    if isinstance(value, Mapping):
        return [(f"{path}.{name}"[:_LONGEST].lstrip("."), value[name]) for name in value]
    return [(f"{path}[{place}]", each) for place, each in enumerate(value)]


def joined_texts(call: ToolCall) -> list[tuple[str, str]]:
    """Return the first texts of *call* with their paths, and the rest as a single text."""
    texts = argument_texts(call)
    first, others = list(islice(texts, _MOST)), [text for _, text in texts]
    if others:
        first.append((f"{len(others):,} further texts", "\n".join(others)))
    return first


def _text_in_view(labelled: LabelledText) -> SourceEntry:
    lines = (line for text in labelled.texts for line in text[:_LONGEST].splitlines() if line)
    return SourceEntry(
        text=next(lines, ""),
        source=labelled.source,
        labels=tuple(sorted(labelled.label.names)),
        message=labelled.message_id,
    )


def _pieces(texts: Sequence[tuple[str, str]], facts: CallFacts) -> Iterator[SourceEntry]:
    for path, text in texts:
        for quoted in facts.quoted(text):
            rest = len(quoted.text) - _LONGEST
            ending = f"… and {rest:,} more characters" if rest > 0 else ""
            yield SourceEntry(
                argument=path,
                text=f"{quoted.text[:_LONGEST]}{ending}" or _UNSEARCHED,
                source=quoted.source,
                labels=tuple(sorted(quoted.labels)),
                message=quoted.message_id,
            )


def _carried(texts: Sequence[tuple[str, str]], facts: CallFacts) -> Iterator[SourceEntry]:
    try:
        for path, text in texts:
            for kind, origin in facts.carried(text).items():
                yield SourceEntry(argument=path, text=f"{kind}: {origin}")
    except ImportError as error:
        yield SourceEntry(argument="not searched", text=str(error))


def _unnamed(texts: Sequence[tuple[str, str]], facts: CallFacts) -> Iterator[SourceEntry]:
    for path, text in texts:
        for address in dict.fromkeys(match[0].rstrip(_ENDS) for match in _ADDRESS.finditer(text)):
            if not facts.is_named(address):
                yield SourceEntry(argument=path, text=address[:_LONGEST])


def _hidden(
    texts: Sequence[tuple[str, str]], view: Sequence[LabelledText]
) -> Iterator[SourceEntry]:
    """Yield the placeholders in *texts*, each with the first message of the same."""
    hidden = {(path, each): None for path, text in texts for each in placeholders_in(text)}
    known: dict[str, LabelledText] = {}
    for labelled in view if hidden else ():
        for each in placeholders_in("\n".join(labelled.texts)):
            known.setdefault(each, labelled)
    for path, placeholder in hidden:
        origin = known.get(placeholder)
        yield SourceEntry(
            argument=path,
            text=placeholder,
            source=origin.source if origin else _NOT_COMPARED,
            labels=tuple(sorted(origin.label.names)) if origin else (),
            message=origin.message_id if origin else "",
        )

"""Facts of several components: the origin of a call's words for rules, its effects for labels."""

from __future__ import annotations

import logging
from functools import cache
from itertools import chain
from posixpath import isdir
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.components.call_facts import CallEffects, FactSources, QuotedPiece
from toolbus.messages.immutable import EMPTY
from toolbus.policy.commands import CHANGES, PathUse, Word
from toolbus.policy.paths.hosts import read_host, read_word
from toolbus.policy.paths.targets import find_targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.call_facts import CallFacts
    from toolbus.messages.records import ToolCall
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.paths.targets import Targets

_SENDS_FOLDER = frozenset({"push", "publish", "deploy", "upload", "release"})
"""Commands that send files of their folder."""
_READS_FOLDER = frozenset({"git", "ls", "find", "tree", "rg", "make"})
logger = logging.getLogger("toolbus")


class JoinedFacts:
    """The facts of one or more *sources*, joined by the most restrictive, each computed once."""

    def __init__(self, sources: Sequence[CallFacts]) -> None:
        self._sources = sources
        self.quoted, self.carried = cache(self._quoted), cache(self._carried)
        self.in_view: Mapping[str, str] = {
            label: source for each in reversed(sources) for label, source in each.in_view.items()
        }

    def _quoted(self, text: str) -> Sequence[QuotedPiece]:
        return [*chain.from_iterable([each.quoted(text) for each in self._sources])]

    def _carried(self, text: str) -> Mapping[str, str]:
        kinds = [each.carried(text).items() for each in reversed(self._sources)]
        return dict(chain.from_iterable(kinds))

    def is_named(self, address: str) -> bool:
        """Return whether every source knows that a person named *address*."""
        return all(each.is_named(address) for each in self._sources)


class StatedFacts(NamedTuple):
    """Facts stated by a person: the words of *views* and *values*, by label and by kind.

    *named* addresses are hosts with all below them, or recipients.
    """

    views: Mapping[Any, Sequence[str]] = EMPTY
    values: Mapping[Any, Sequence[str]] = EMPTY
    named: Sequence[str] = ()

    @property
    def in_view(self) -> Mapping[str, str]:
        """The labels of the texts in view, each with its source."""
        return dict.fromkeys(self.views, "a text in view")

    def quoted(self, text: str) -> Sequence[QuotedPiece]:
        """Return the stated words that *text* has."""
        return [
            QuotedPiece(each, "a text in view", frozenset({label}))
            for label, texts in self.views.items()
            for each in texts
            if each in text
        ]

    def carried(self, text: str) -> Mapping[str, str]:
        """Return the kinds of the stated values that *text* has."""
        kinds = [kind for kind, texts in self.values.items() if any(map(text.__contains__, texts))]
        return dict.fromkeys(kinds, "")

    def is_named(self, address: str) -> bool:
        """Return whether *address*, which may be `Name <address>`, is stated."""
        address = address.rpartition("<")[2].rstrip(">")
        names = {address, *(read_host(address).hosts if "://" in address else ())}
        return any(
            name == each or name.endswith(f".{each}") for name in names for each in self.named
        )


class OriginReader:
    """Reads the origin of words for one policy; without a source it warns once."""

    def __init__(self) -> None:
        self._has_warned = False

    async def read(self, bus: EventBus, ctx: EventContext[ToolCall]) -> JoinedFacts | None:
        """Return the facts that components on *bus* know about the call of *ctx*."""
        answers = [await each.facts_of(ctx) for each in bus.shared(FactSources).facts]
        if facts := [each for each in answers if each is not None]:
            return JoinedFacts(facts)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "rules of the policy need the origin of words, which no component knows, so they"
                ' ask; add the component `use = "flow"`'
            )
        return None


def describe_effects(readings: Sequence[CallReading]) -> CallEffects:
    """Return the effects of a call; each version of the rules has its own reading of the call."""
    parts = chain.from_iterable([reading.parts for reading in readings])
    hosts = list(map(read_word, chain.from_iterable([part.hosts for part in parts])))
    files = list(chain.from_iterable(map(_files, readings)))
    doubts = [*[each.doubt for each in hosts], *[targets.doubt for _, targets in files]]
    return CallEffects(
        frozenset().union(*[reading.effects for reading in readings]),
        tuple(dict.fromkeys(chain.from_iterable([each.hosts for each in hosts]))),
        _names(files, changed=False),
        is_known=not any(doubts) and not any(reading.unknown for reading in readings),
        writes=_names(files, changed=True),
    )


def _files(reading: CallReading) -> Iterator[tuple[PathUse, Targets]]:
    """Yield the uses of files of a call, with the files."""
    for part in reading.parts:
        yield from [(use, find_targets(use, reading.resolver)) for use in _uses(part)]


def _uses(part: CallPart) -> Sequence[PathUse]:
    """Return the uses of files of *part*; of git and of a release without files, their folder."""
    reads = _SENDS_FOLDER if "network" in part.effects else _READS_FOLDER
    reads_folder = part.command is not None and not reads.isdisjoint(part.action)
    is_whole = (reads_folder or part.folder != ".") and not part.paths and not part.is_tool
    return [PathUse(Word("."), "read-tree", part.folder)] if is_whole else part.paths


def _names(files: Sequence[tuple[PathUse, Targets]], *, changed: bool) -> tuple[str, ...]:
    """Return the real paths of *files*; "/**" stands for all files below a folder."""
    names: dict[str, None] = {}
    for use, targets in files:
        if (use.kind in CHANGES) is changed:
            is_tree = use.kind == "read-tree"
            for path in [each.path for each in targets.paths]:
                names[f"{path}/**" if is_tree and isdir(path) else path] = None
    return tuple(names)

"""Names that a reader takes for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from toolbus.policy.pins.visible_characters import brief_name
from toolbus.terminal.look_alikes import LATIN_LETTERS
from toolbus.terminal.visible_text import is_visible

if TYPE_CHECKING:
    from toolbus.policy.pins.pinned_items import ToolPins

_LONGEST = 1_000
"""Characters of a name that are looked at; nobody reads more of one."""

_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))


def skeleton(name: str) -> str:
    """Return what is equal for two names if a reader takes them for each other.

    Case, accents, invisible characters, and which of the signs between words is used do not count.
    """
    shown = [
        char
        for char in normalize("NFKD", name[:_LONGEST])
        if is_visible(char) and not combining(char)
    ]
    text = "".join(shown).casefold().translate(LATIN_LETTERS)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text


class PinnedNames:
    """The names of the tools in *pins*, by how they look."""

    def __init__(self, pins: ToolPins) -> None:
        self._holders: dict[str, list[str]] = {}
        self._alike: dict[str, list[tuple[str, str]]] = {}
        for server, pinned in {"": pins.program, **pins.servers}.items():
            for name in pinned.tools:
                self._holders.setdefault(name, []).append(server)
                self._alike.setdefault(skeleton(name), []).append((server, name))

    def taken(self, name: str, source: str | None) -> str:
        """Return for which pinned tool the new tool *name* of *source* may be taken, or ""."""
        for server in self._holders.get(name, ()):
            if server != source:
                return f"{brief_name(name)!r} is pinned as a tool of {describe_source(server)}"
        for server, other in self._alike.get(skeleton(name), ()):
            if other != name:
                of = f" of {describe_source(server)}" if server != source else ""
                return f"its name looks like that of the pinned tool {brief_name(other)!r}{of}"
        return ""


def describe_source(source: str) -> str:
    """Return how a person calls the server *source*; "" is the program itself."""
    return f"server {brief_name(source)!r}" if source else "this program"

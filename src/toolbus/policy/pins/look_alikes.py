r"""Names and texts of servers as a reader sees them: hidden characters shown, look-alikes told.

A character that shows nothing is written as `\u200b`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from toolbus.terminal.look_alikes import LATIN_LETTERS
from toolbus.terminal.visible_text import is_visible

if TYPE_CHECKING:
    from toolbus.policy.pins.pinned_items import ToolPins

_LONGEST = 1_000
"""Characters of a name that are compared."""

_LONGEST_NAME = 128
"""Characters of a tool's name; MCP 2025-11-25, server/tools, "Tool Names"."""

_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))


def reveal(text: str, keep: str = "") -> str:
    r"""Return *text* with `\u200b` and the like for each character that shows nothing.

    They are written as JSON has them, so that a text inside of JSON stays the same text. Those of
    *keep* stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join([char if char in keep or is_visible(char) else _escape(char) for char in text])


def brief_name(name: str) -> str:
    """Return *name* with every character visible, and cut if it is longer than any name."""
    return reveal(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join([f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4)])


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

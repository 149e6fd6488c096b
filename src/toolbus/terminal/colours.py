"""Colours for styles, by rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.terminal.spans import Span, Style

# The terminal's own sixteen colours, so that they suit its background.
_STYLES: dict[Style, str] = {
    "": "",
    "good": "green",
    "bad": "red",
    "changed": "yellow",
    "asked": "cyan",
    "dim": "bright_black",
    "strong": "bold",
}


def paint(pieces: Sequence[Span]) -> str:
    """Return *pieces* in colour."""
    text = Text.assemble(*[(one.text, _STYLES[one.style]) for one in pieces])
    text.rstrip()
    console = Console(force_terminal=True, color_system="standard", highlight=False)
    with console.capture() as capture:
        console.print(text, end="", soft_wrap=True)
    return capture.get()

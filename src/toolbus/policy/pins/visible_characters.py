r"""Texts of strangers with every character visible: what shows nothing is written as `\u200b`."""

from __future__ import annotations

from toolbus.terminal.visible_text import is_visible

_LONGEST_NAME = 128
"""Characters of a tool's name; MCP 2025-11-25, server/tools, "Tool Names"."""


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

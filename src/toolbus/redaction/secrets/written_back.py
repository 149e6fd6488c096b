"""Lines that a model writes back into the file which they came from, with their secrets.

A model that has read a file, and changes another line, writes placeholders where secrets stood. The
file that the call is about still has them: a line of an argument that is a line of this file, as
redaction shows it, becomes the file's own line again. A placeholder in any other line is not
filled, be it of another file, in a command or in an address: so a file gets only what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from toolbus.redaction.live_placeholders import held_placeholder

if TYPE_CHECKING:
    from toolbus.messages.records import ToolCall
    from toolbus.redaction.secrets.secret_registry import SecretRegistry
    from toolbus.tools import Tool

TOOLS, _ARGUMENTS = ("write_file", "edit_file"), ("content", "old_text", "new_text")


@runtime_checkable
class ChangesFiles(Protocol):
    """A component with tools that change files, such as `FileTools`."""

    def text_before(self, call: ToolCall, offered: Tool | None, /) -> str | None:
        """Return the text of the file that *call* of the tool *offered* changes, None without."""
        ...


def file_text(call: ToolCall, offered: Tool | None) -> str | None:
    """Return the text of the file that *call* of the tool *offered* changes, None without."""
    owner = getattr(getattr(offered, "run", None), "__self__", None)
    return owner.text_before(call, offered) if isinstance(owner, ChangesFiles) else None


def own_lines(text: str, cleaned: str, registry: SecretRegistry) -> dict[str, str]:
    """Return the lines of a file's *text* by the lines of *cleaned*, where the two differ.

    There are none if the text has a placeholder of the session itself, whoever wrote it, or if a
    secret goes over several lines: it is not known then which lines belong together.
    """
    if held_placeholder(text, registry.placeholders, registry.former):
        return {}
    pairs = [*zip(cleaned.splitlines(), text.splitlines(), strict=False)]
    if len(pairs) != max(len(cleaned.splitlines()), len(text.splitlines())):
        return {}
    lines: dict[str, str] = {}
    for shown, line in pairs:
        key, value = shown.strip(), line.strip()
        if key != value and (not key or lines.setdefault(key, value) != value):
            return {}
    return lines


def with_lines(call: ToolCall, lines: dict[str, str]) -> ToolCall:
    """Return *call* with *lines* in the texts that are written; the same if none is there."""
    texts = {name: call.arguments.get(name) for name in _ARGUMENTS}
    changed = {
        name: filled
        for name, text in texts.items()
        if isinstance(text, str) and (filled := _filled(text, lines)) != text
    }
    return call.merge_arguments(changed) if changed else call


def _filled(text: str, lines: dict[str, str]) -> str:
    pieces = []
    for part in text.splitlines(keepends=True):
        line = part.strip()
        # The indent and the line end may be written anew.
        pieces.append(part.replace(line, lines[line]) if line in lines else part)
    return "".join(pieces)

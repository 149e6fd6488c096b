"""Lines that a model writes back into the file which they came from, with the values in them.

A model that has read a file, and changes another line, writes placeholders where values stood. The
file that the call is about still has them: a line of an argument that is a line of this file, as
redaction shows it, becomes the file's own line again. A placeholder in any other line is not
filled, be it of another file, in a command or in an address: so a file gets only what it has.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from toolbus.components.components import AgentComponent
from toolbus.redaction.limits import UnexaminedError
from toolbus.redaction.live_placeholders import may_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall
    from toolbus.tools import Tool

_WRITTEN = re.compile(r"content|(?:old|new)_?(?:str|string|text)", re.IGNORECASE)
"""Names of arguments that are a part of the file, or a whole one, at each tool that writes one."""


@runtime_checkable
class ChangesFiles(Protocol):
    """An owner of tools that change files: `FileTools`, and a coding agent with its own tools."""

    def text_before(self, call: ToolCall, offered: Tool | None, /) -> str | None:
        """Return the text of the file that *call* of the tool *offered* changes.

        It is None for a tool that changes no file, and "" where no line may be filled.
        """
        ...


class FileRedaction(AgentComponent, ABC):
    """A component that takes values out of the files that a model reads, and keeps them there."""

    @abstractmethod
    def holds(self, text: str, scope: Scope) -> bool:
        """Return whether *text* has placeholders that the component gave in the session."""

    @abstractmethod
    async def clean_text(self, text: str, scope: Scope) -> str:
        """Return *text* as the model reads it. Raises `UnexaminedError` and `StoreError`."""

    def restored(self, shown: str, scope: Scope) -> str:  # noqa: ARG002 - for those that keep some
        """Return *shown* with the values that are known of it."""
        return shown

    def note_filled(self, call: ToolCall, scope: Scope) -> None:
        """Note that the values behind placeholders of *call* go into their file."""

    async def filled_from_file(self, call: ToolCall, scope: Scope) -> ToolCall | None:
        """Return *call* with the values of the file that it changes; None if it changes none."""
        if not may_hold(call.arguments) or self.host is None:
            return None
        return await self.host.bus.shared(FileRedactions).fill(call, self.host, scope)

    def subscribe(self, host: Host) -> None:
        """Take part in what the files of the bus keep."""
        super().subscribe(host)
        steps = host.bus.shared(FileRedactions).steps
        steps.append(self)
        self._undo.callback(steps.remove, self)


class FileRedactions:
    """The redactions of one bus, in the order in which results pass them."""

    def __init__(self) -> None:
        self.steps: list[FileRedaction] = []

    async def fill(self, call: ToolCall, host: Host, scope: Scope) -> ToolCall | None:
        """Return *call* with the values of the file that it changes; None if it changes none."""
        offered, owner = _tool_of(call, host, scope)
        text = owner.text_before(call, offered) if isinstance(owner, ChangesFiles) else None
        steps = [step for step in self.steps if _concerns(step, call, scope)]
        if not text or any(step.holds(text, scope) for step in steps):
            # Of a placeholder that is in the file it is not known what it stands for.
            return None if text is None else call
        # A model reads and writes plain line ends, also where a file has others.
        cleaned = text = text.replace("\r\n", "\n")
        try:
            for step in steps:
                cleaned = await step.clean_text(cleaned, scope)
        except UnexaminedError:
            return call

        def restored(shown: str) -> str:
            for step in steps:
                shown = step.restored(shown, scope)
            return shown

        filled = _with_lines(call, text, own_lines(text, cleaned, restored))
        if filled is not call:
            for step in steps:
                step.note_filled(call, scope)
        return filled


def _tool_of(call: ToolCall, host: Host, scope: Scope) -> tuple[Tool | None, object]:
    """Return the tool of *call*, if it is one of *host*, and its owner."""
    # An agent knows its own tools, and not those of agents below it.
    offered = None if scope.lineage else host.tools.get(call.name)
    return offered, host if offered is None else getattr(offered.run, "__self__", None)


def _concerns(step: FileRedaction, call: ToolCall, scope: Scope) -> bool:
    if step.host is None or not step.enabled or not step.selector.matches(call.name):
        return False
    return step.host.scope.agent_id in {"", scope.agent_id, *scope.lineage}


def own_lines(text: str, cleaned: str, restored: Callable[[str], str]) -> dict[str, str]:
    """Return the lines of a file's *text* by the lines of *cleaned*, where the two differ.

    A line stands for several where its *restored* text has as many. There are none if it is not
    clear which lines belong together.
    """
    before, shown_lines = text.splitlines(keepends=True), cleaned.splitlines()
    counts = [1] * len(shown_lines)
    if len(before) != len(shown_lines):
        counts = [len(restored(shown).splitlines()) or 1 for shown in shown_lines]
    if sum(counts) != len(before):
        return {}
    lines: dict[str, str] = {}
    start = 0
    for shown, count in zip(shown_lines, counts, strict=True):
        value = "".join(before[start : start + count]).strip()
        start += count
        key = shown.strip()
        if key != value and (not key or lines.setdefault(_key(shown, count), value) != value):
            return {}
    return lines


def _with_lines(call: ToolCall, text: str, lines: dict[str, str]) -> ToolCall:
    """Return *call*, which changes a file with *text*, with its *lines* in what is written.

    A tool may take its texts as the members of a list. Of such only a single one is filled: where
    another one is put depends on what the tool has made of the file by then.
    """
    changed = _written(call.arguments, text, lines)
    for name, value in call.arguments.items():
        match value:
            case [Mapping() as edit] if new := _written(edit, text, lines):
                changed[name] = [{**edit, **new}]
    return call.merge_arguments(changed) if changed else call


def _written(texts: Mapping[str, Any], text: str, lines: dict[str, str]) -> dict[str, Any]:
    """Return the *texts* that change, by their names; none where an edit begins within a line."""
    filled = {
        name: _filled(value, lines)
        for name, value in texts.items()
        if isinstance(value, str) and _WRITTEN.fullmatch(name)
    }
    old = next((value for name, value in filled.items() if name[:3].lower() == "old"), None)
    new = next((value for name, value in filled.items() if name[:3].lower() == "new"), "")
    if old is not None and not _replaces_lines(text, old, new):
        return {}
    return {name: value for name, value in filled.items() if value != texts[name]}


def _replaces_lines(text: str, old: str, new: str) -> bool:
    """Return whether *new* takes the place of whole lines of *text* wherever *old* stands.

    Else the value of a line would come to stand beside other text.
    """
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    ends_line = old.endswith("\n")
    if not old or (ends_line and new and not new.endswith("\n")):
        return False
    # A line may be given without its indent, and the last one has no end.
    before, *parts = f"{text}\n".split(old)
    begins = [part.rpartition("\n")[2].strip() == "" for part in (before, *parts[:-1])]
    return all(begins) and bool(parts) and all(ends_line or part[:1] == "\n" for part in parts)


def _filled(text: str, lines: dict[str, str]) -> str:
    pieces = []
    for part in text.splitlines(keepends=True):
        values = (lines.get(_key(part, count)) for count in (1, 2))
        value = next((value for value in values if value is not None), None)
        if value is not None and part.endswith("\r\n"):
            value = value.replace("\n", "\r\n")
        pieces.append(part if value is None else part.replace(part.strip(), value))
    return "".join(pieces)


def _key(shown: str, count: int) -> str:
    """Return what tells a line that is *shown* for *count* lines of a file.

    The indent of a single one may be written anew.
    """
    return shown.strip() if count == 1 else f"\n{shown.rstrip()}"

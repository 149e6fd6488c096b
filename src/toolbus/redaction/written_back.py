"""Redacted lines that a model writes back into their own file, filled with the file's values.

A model that read a redacted file and changes another line writes placeholders in place of values.
The file still has the values: a line of an argument that equals a line of this file after
redaction is replaced by the file's own line. A placeholder in any other line stays, whether from
another file, in a command or in a URL: a file receives only values that it already has.
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
"""Names of arguments that hold a file's text or a part of it, in every tool that writes files."""


@runtime_checkable
class ChangesFiles(Protocol):
    """An owner of tools that change files: `FileTools`, or a coding agent with its own tools."""

    def text_before(self, call: ToolCall, offered: Tool | None, /) -> str | None:
        """Return the text of the file that *call* of the tool *offered* changes.

        Return None for a tool that does not change files, and "" if no line may be filled.
        """
        ...


class FileRedaction(AgentComponent, ABC):
    """A component that redacts files for the model, and preserves the values in the files."""

    @abstractmethod
    def holds(self, text: str, scope: Scope) -> bool:
        """Return whether *text* has placeholders that the component made in the session."""

    @abstractmethod
    async def clean_text(self, text: str, scope: Scope) -> str:
        """Return *text* redacted for the model. Raises `UnexaminedError` and `StoreError`."""

    def restored(self, shown: str, scope: Scope) -> str:  # noqa: ARG002 - for those that keep some
        """Return *shown* with the values of all placeholders that are known."""
        return shown

    def note_filled(self, call: ToolCall, scope: Scope) -> None:
        """Note that the filled values of *call* are written into their file."""

    async def filled_from_file(self, call: ToolCall, scope: Scope) -> ToolCall | None:
        """Return *call* filled from the file that it changes; None if it does not change one."""
        if not may_hold(call.arguments) or self.host is None:
            return None
        return await self.host.bus.shared(FileRedactions).fill(call, self.host, scope)

    def subscribe(self, host: Host) -> None:
        """Subscribe, and join the redactions of files on this bus."""
        super().subscribe(host)
        steps = host.bus.shared(FileRedactions).steps
        steps.append(self)
        self._undo.callback(steps.remove, self)


class FileRedactions:
    """The redactions of one bus, in the order in which results pass them."""

    def __init__(self) -> None:
        self.steps: list[FileRedaction] = []

    async def fill(self, call: ToolCall, host: Host, scope: Scope) -> ToolCall | None:
        """Return *call* filled from the file that it changes; None if it does not change one."""
        offered, owner = _tool_of(call, host, scope)
        text = owner.text_before(call, offered) if isinstance(owner, ChangesFiles) else None
        steps = [step for step in self.steps if _concerns(step, call, scope)]
        if not text or any(step.holds(text, scope) for step in steps):
            # The value of a placeholder that the file itself holds is not known.
            return None if text is None else call
        # A model reads and writes plain line ends, even if the file has others.
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
    """Return the tool of *call*, if *host* has it, and its owner."""
    # An agent knows its own tools, but not the tools of agents below it.
    offered = None if scope.lineage else host.tools.get(call.name)
    return offered, host if offered is None else getattr(offered.run, "__self__", None)


def _concerns(step: FileRedaction, call: ToolCall, scope: Scope) -> bool:
    if step.host is None or not step.enabled or not step.selector.matches(call.name):
        return False
    return step.host.scope.agent_id in {"", scope.agent_id, *scope.lineage}


def own_lines(text: str, cleaned: str, restored: Callable[[str], str]) -> dict[str, str]:
    """Return the lines of a file's *text* by the lines of *cleaned*, where the two differ.

    A line with a placeholder stands for one line, or for as many as its *restored* text has; the
    next line decides. The result is empty if the lines cannot be matched with certainty.
    """
    before, shown_lines = text.split("\n"), cleaned.split("\n")
    lines: dict[str, str] = {}
    start = 0
    for index, shown in enumerate(shown_lines):
        key = shown.strip()
        if start < len(before) and before[start].strip() == key:
            start += 1
            continue
        counts = {1, restored(shown).count("\n") + 1} if may_hold(key) else set[int]()
        following = shown_lines[index + 1 : index + 2]
        ends = [(count, start + count) for count in counts]
        fitting = [count for count, end in ends if _goes_on(before[end : end + 1], following)]
        if len(fitting) != 1:
            return {}
        value = "\n".join(before[start : start + fitting[0]]).strip()
        start += fitting[0]
        if lines.setdefault(_key(shown, fitting[0]), value) != value:
            return {}
    return lines if start == len(before) else {}


def _goes_on(next_line: list[str], following: list[str]) -> bool:
    """Return whether *next_line* of a file may match *following*; both are empty at the end."""
    if not next_line or not following:
        return not (next_line or following)
    return may_hold(following[0]) or next_line[0].strip() == following[0].strip()


def _with_lines(call: ToolCall, text: str, lines: dict[str, str]) -> ToolCall:
    """Return *call*, which changes a file with *text*, with the file's *lines* filled in.

    A tool may take a list of edits. Only a single edit is filled: the place of a second one
    depends on the file as the first one left it.
    """
    edits = [
        (name, each)
        for name, value in call.arguments.items()
        if isinstance(value, tuple | list)
        for each in value
        if isinstance(each, Mapping)
    ]
    if not edits:
        changed = _written(call.arguments, text, lines)
    elif len(edits) == 1 and not _texts_of(call.arguments):
        ((name, edit),) = edits
        new = _written(edit, text, lines)
        changed = {name: [{**edit, **new}]} if new else {}
    else:
        changed = {}
    return call.merge_arguments(changed) if changed else call


def _texts_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments that hold text of a file, by name."""
    return {
        name: value
        for name, value in arguments.items()
        if isinstance(value, str) and _WRITTEN.fullmatch(name)
    }


def _written(arguments: Mapping[str, Any], text: str, lines: dict[str, str]) -> dict[str, Any]:
    """Return the *arguments* that change, by name.

    Only a whole content is filled, or an edit with one old and one new text that replaces whole
    lines.
    """
    texts = _texts_of(arguments)
    filled = {name: _filled(value, lines) for name, value in texts.items()}
    match sorted(texts, key=lambda name: name[:3].lower() == "new"):
        case [content] if content.lower() == "content":
            pass
        case [old, new] if (old[:3].lower(), new[:3].lower()) == ("old", "new"):
            if not _replaces_lines(text, filled[old], filled[new]):
                return {}
        case _:
            return {}
    return {name: value for name, value in filled.items() if value != texts[name]}


def _replaces_lines(text: str, old: str, new: str) -> bool:
    """Return whether *new* replaces whole lines of *text* at every occurrence of *old*.

    Otherwise a line's value could end up beside other text.
    """
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    ends_line = old.endswith("\n")
    if not old or (ends_line and new and not new.endswith("\n")):
        return False
    # The model may omit a line's indent, and the last line has no line end.
    before, *parts = f"{text}\n".split(old)
    begins = [part.rpartition("\n")[2].strip() == "" for part in (before, *parts[:-1])]
    return all(begins) and bool(parts) and all(ends_line or part[:1] == "\n" for part in parts)


def _filled(text: str, lines: dict[str, str]) -> str:
    pieces = []
    # Only "\n" ends a line for every program that may read the file.
    for part in re.findall(r"[^\n]*\n|[^\n]+", text):
        values = (lines.get(_key(part, count)) for count in (1, 2))
        value = next((value for value in values if value is not None), None)
        if value is not None and part.endswith("\r\n"):
            value = value.replace("\n", "\r\n")
        pieces.append(part if value is None else part.replace(part.strip(), value))
    return "".join(pieces)


def _key(shown: str, count: int) -> str:
    """Return the key of the line *shown*, which stands for *count* lines of a file.

    The indent of a single line may differ.
    """
    return shown.strip() if count == 1 else f"\n{shown.rstrip()}"

"""The comparison of tools, prompts and instructions with what was pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import FreezeError
from toolbus.policy.pins.look_alikes import PinnedNames, brief_name, describe_source
from toolbus.policy.pins.pin_differences import difference_rows, whole_item
from toolbus.policy.pins.pinned_items import (
    SEPARATOR,
    PinnedItem,
    PinnedServer,
    ToolPins,
    pin_instructions,
    pin_prompt,
    pin_tool,
)
from toolbus.terminal.differences import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolbus.events.call_values import ToolSpec

_MOST_REMEMBERED = 20_000
"""Tools of which it is remembered what they are; a server that lists more is judged anew."""


class PinObjection(NamedTuple):
    """Why something is not what was pinned: a *reason*, and *rows* of differences for a person.

    *digest* is that of what it is now.
    """

    reason: str
    rows: tuple[str, ...]
    digest: str

    @property
    def question(self) -> str:
        """The reason and the difference, for a person."""
        return "\n".join([self.reason, *self.rows])


class PinJudge:
    """Compares with *pins*; servers that are not told apart are all, or the one called *server*."""

    def __init__(self, pins: ToolPins, server: str | None = None) -> None:
        self.pins, self._names = pins, PinnedNames(pins)
        self._unnamed = dict(pins.servers)
        if server is not None:
            self._unnamed = {server: pins.servers.get(server, PinnedServer())}
        self._judged: dict[tuple[str, str | None], tuple[ToolSpec, PinObjection | None]] = {}

    def judge_tool(self, spec: ToolSpec, source: str | None) -> PinObjection | None:
        """Return why the tool of *spec* is not what was pinned, None if it is.

        *source* is "" for the program's own, the name of its server, None if that is not known.
        """
        key = spec.name, source
        judged = self._judged.get(key)
        # Not `==`, by which 1 is True; a toolset gives the same object until something changes.
        if judged is not None and judged[0] is spec:
            return judged[1]
        if len(self._judged) >= _MOST_REMEMBERED:
            self._judged.clear()
        objection = self._judge(spec, source)
        self._judged[key] = spec, objection
        return objection

    def was_pinned(self, name: str) -> bool:
        """Return whether the tool *name*, of a server without a name, was as pinned when listed."""
        judged = self._judged.get((name, None))
        return judged is not None and judged[1] is None

    def _judge(self, spec: ToolSpec, source: str | None) -> PinObjection | None:
        name, item = spec.name, pin_tool(spec, is_own=source == "")
        pinned = self._pinned(name, source)
        if len(pinned) > 1:
            names = ", ".join([describe_source(each) for each in pinned])
            reason = (
                f"tool {brief_name(name)!r} is pinned for {names}; say which by the setting server"
            )
            return PinObjection(reason, (), item.digest)
        for former in pinned.values():
            if former.digest == item.digest:
                return None
            rows = difference_rows(tuple(differences(former.fields, item.fields)))
            reason = f"tool {brief_name(name)!r} is not as it was pinned"
            return PinObjection(reason, tuple(rows), item.digest)
        taken = self._names.taken(name, source)
        reason = f"tool {brief_name(name)!r} was not there when tools were pinned"
        reason = f"{reason}, and {taken}" if taken else reason
        rows = difference_rows(whole_item(item))
        return PinObjection(reason, tuple(rows), item.digest)

    def _pinned(self, name: str, source: str | None) -> dict[str, PinnedItem]:
        """Return what is pinned under *name* of *source*, by server."""
        if source == "":
            servers: Mapping[str, PinnedServer] = {"": self.pins.program}
        elif source is None:
            servers = self._unnamed
        else:
            servers = {source: self.pins.servers.get(source, PinnedServer())}
        return {each: of.tools[name] for each, of in servers.items() if name in of.tools}

    def judge_nested(self, spec: ToolSpec) -> PinObjection | None:
        """Return why the tool of *spec*, of an agent below, is not what was pinned of anybody."""
        for pinned in (self.pins.program, *self.pins.servers.values()):
            former = pinned.tools.get(spec.name)
            is_own = pinned is self.pins.program
            if former is not None and former.digest == pin_tool(spec, is_own=is_own).digest:
                return None
        return self._judge(spec, None)

    def is_pinned_prompt(self, prompt: Mapping[str, Any]) -> bool:
        """Return whether *prompt*, as `prompts/list` has it, is as it was pinned."""
        name = prompt.get("name")
        if not isinstance(name, str):
            return False
        try:
            digest = pin_prompt(name, prompt).digest
        except (FreezeError, TypeError, ValueError):
            return False
        return any(digest == each.digest for each in self._prompts(name))

    def knows_prompt(self, name: str | None) -> bool:
        """Return whether a prompt *name* was pinned."""
        return name is not None and any(self._prompts(name))

    def _prompts(self, name: str) -> Iterable[PinnedItem]:
        return [of.prompts[name] for of in self._unnamed.values() if name in of.prompts]

    def are_pinned_instructions(self, text: str) -> bool:
        """Return whether *text* is what one server was pinned with, or several that are as one."""
        if not text:
            return True
        item = pin_instructions(text)
        digest = None if item is None else item.digest
        pinned = {
            name: of.instructions
            for name, of in self._unnamed.items()
            if of.instructions is not None
        }
        if any(each.digest == digest for each in pinned.values()):
            return True
        return _is_joined(text, [introduced(name, each) for name, each in pinned.items()])


def introduced(server: str, item: PinnedItem) -> str:
    """Return the instructions of *server* as the proxy puts them beside those of others."""
    text = item.fields["text"]
    return f"Of the tools and prompts that begin with {server}{SEPARATOR}: {text}"


def _is_joined(text: str, sections: list[str]) -> bool:
    """Return whether *text* consists of some of *sections*, each at most once, and nothing else."""
    remaining = list(sections)
    while remaining:
        fitting = [each for each in remaining if text == each or text.startswith(f"{each}\n\n")]
        if not fitting:
            return False
        longest = max(fitting, key=len)
        if text == longest:
            return True
        remaining.remove(longest)
        text = text[len(longest) + 2 :]
    return False

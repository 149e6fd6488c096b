"""Live placeholders: those of a session, by which a call could destroy the values behind them.

A model that reads a file, changes a line and writes the whole back, writes the placeholder where
the value stood. So a call does not run if its arguments hold a placeholder of its session that no
vault fills. The letters of a placeholder tell whose it is; for those of 0.3 the store is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.redaction.encoded import encoded_texts
from toolbus.redaction.former_placeholders import LIKELY
from toolbus.redaction.placeholders import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.messages.records import ToolCall
    from toolbus.redaction.former_placeholders import FormerPlaceholders
    from toolbus.redaction.placeholders import SessionPlaceholders

_KIND_BEFORE = re.compile(r"(?:%5[Bb]|u005[Bb])?([a-z0-9-]{0,80})\Z")
_PLAIN = re.compile(r"[\w-]{1,32}")
_WAY_OUT = "edit the other lines instead of writing the whole anew, or leave the placeholder out"


class HeldPlaceholder(NamedTuple):
    """A *placeholder* in the arguments of a call, at a dotted *path*, empty for a name."""

    path: str
    placeholder: str

    def reason(self, call: ToolCall, hidden: str) -> str:
        """Return why *call* does not run: its tool would lose the *hidden* value."""
        lost = f"would get the placeholder in place of the {hidden} behind it, which could be lost"
        return f"{self._place(call)}, and the tool {lost}: {_WAY_OUT}"

    def reason_unknown(self, call: ToolCall) -> str:
        """Return why *call*, which a vault is to fill, does not run."""
        return (
            f"{self._place(call)}, whose value is gone: "
            "call the tool that returned it again, and then this one"
        )

    def _place(self, call: ToolCall) -> str:
        where = f"argument {self.path!r}" if self.path else "a name in the arguments"
        return f"{where} of tool {call.name!r} holds {self.placeholder}"


def held_placeholder(
    arguments: Any, placeholders: SessionPlaceholders, former: FormerPlaceholders | None = None
) -> HeldPlaceholder | None:
    """Return the first of the *placeholders*, or of the *former*, in *arguments*, or None."""
    for path, text in _texts(arguments):
        for match in LETTERS.finditer(text):
            if placeholders.is_own(match[1]):
                kind = _KIND_BEFORE.search(text, max(match.start() - 80, 0), match.start())
                # A denial is a result, in which the letters would be taken for a quotation.
                return HeldPlaceholder(path, f"[{kind[1] if kind else ''}-…]")
        if former is not None and (shown := former.find(text)):
            return HeldPlaceholder(path, shown)
    return None


def may_hold(arguments: Any) -> bool:
    """Return whether anything in *arguments* looks like a placeholder."""
    return any(LETTERS.search(text) or LIKELY.search(text) for _, text in _texts(arguments))


def may_hold_former(arguments: Any) -> bool:
    """Return whether anything in *arguments* looks like a placeholder of 0.3."""
    return any(LIKELY.search(text) for _, text in _texts(arguments))


def gives_a_task(ctx: EventContext[ToolCall], host: Host | None) -> bool:
    """Return whether the call of *ctx* gives a task to a sub-agent, whose own calls are judged.

    *host* knows the sub-agents of its own agent, and not those below them.
    """
    tool = None if host is None or ctx.scope.lineage else host.tools.get(ctx.value.name)
    return tool is not None and tool.delegates


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts of *value*, names and texts in base64 among them, with their paths."""
    match value:
        case str():
            yield path, value
            for encoded in encoded_texts(value.encode(errors="surrogatepass")):
                yield path, encoded.text
        case Mapping():
            for name, item in value.items():
                yield path, name
                # A reason is kept, and a long name may be a secret.
                shown = name if _PLAIN.fullmatch(name) else "…"
                yield from _texts(item, f"{path}.{shown}" if path else shown)
        case tuple() | list():
            for index, item in enumerate(value):
                yield from _texts(item, f"{path}[{index}]")

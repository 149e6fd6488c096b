"""Live placeholders: those of a session, by which a call could destroy what they stand for.

A model that reads a file, changes a line and writes the whole back, writes the placeholder where
the value stood. So a call does not run if its arguments hold a placeholder that processes of its
session have given, and nothing fills. What is kept for the session tells these from the text of
strangers: a number that was given, and the session's suffix for placeholders that have one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.redaction.encoded import encoded_texts
from toolbus.redaction.numbering import numbers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

# Brackets may be escaped, as in an address or an expression; six random letters need none.
_OPEN, _CLOSE = r"(?:\[|%5[Bb])", r"\\?(?:\]|%5[Dd])"
_LIKELY = re.compile(rf"[a-z0-9]-\d{{1,9}}(?:-[a-z][a-z2-7]{{5}}|{_CLOSE})")
_PLAIN = re.compile(r"[\w-]{1,32}")
_WAY_OUT = "edit the other lines instead of writing the whole anew, or leave the placeholder out"


class HeldPlaceholder(NamedTuple):
    """A *placeholder* in the arguments of a call, at a dotted *path*, empty for a name."""

    path: str
    placeholder: str

    def reason(self, call: ToolCall, hidden: str) -> str:
        """Return why *call* does not run: its tool would lose what is *hidden*."""
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


class LivePlaceholders:
    """The placeholders that are given in a session, by what is *stored* for it.

    Only those of *kinds* count, if there are any.
    """

    def __init__(self, stored: Any, kinds: Collection[str] = ()) -> None:
        numbers = numbers_in(stored)
        self._highest = {kind: numbers[kind] for kind in numbers if not kinds or kind in kinds}
        suffix = stored.get("suffix") if isinstance(stored, Mapping) else ""
        # The longest first: one kind may end as another one is called.
        names = sorted(map(re.escape, self._highest), key=len, reverse=True)
        named = rf"({'|'.join(names) or '(?!)'})-([1-9]\d{{0,8}})"
        # A denial is a result, and in a result a suffix would be taken for a quotation.
        self._end = "-…]" if suffix else "]"
        whole = f"{named}-{re.escape(str(suffix))}" if suffix else f"{_OPEN}{named}{_CLOSE}"
        self._pattern = re.compile(whole)

    def find(self, arguments: Any) -> HeldPlaceholder | None:
        """Return the first of them in *arguments*, or None."""
        for path, text in _texts(arguments):
            for match in self._pattern.finditer(text):
                if int(match[2]) <= self._highest[match[1]]:
                    return HeldPlaceholder(path, f"[{match[1]}-{match[2]}{self._end}")
        return None


async def live_placeholders(
    ctx: EventContext[ToolCall],
    host: Host | None,
    numbers: Callable[[Scope], State | None],
    kinds: Collection[str] = (),
) -> LivePlaceholders | None:
    """Return those of the session if the call of *ctx* may hold any; raises `StoreError`.

    A call of a sub-agent only gives a task: what that one calls is judged by itself. *host* knows
    the sub-agents of its own agent, and not those below them. *numbers* gives the state of a scope.
    """
    call = ctx.value
    if not may_hold(call.arguments):
        return None
    tool = None if host is None or ctx.scope.lineage else host.tools.get(call.name)
    state = numbers(ctx.scope)
    if state is None or (tool is not None and tool.delegates):
        return None
    return LivePlaceholders(await state.read(), kinds)


def may_hold(arguments: Any) -> bool:
    """Return whether anything in *arguments* looks like a placeholder."""
    return any(_LIKELY.search(text) for _, text in _texts(arguments))


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Give all texts of *value*, names and texts in base64 among them, with their paths."""
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

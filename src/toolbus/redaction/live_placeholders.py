"""Live placeholders: those of a session, by which a call could destroy the values behind them.

A model that reads a file, changes a line and writes the whole back, writes the placeholder where
the value stood. So a call does not run if its arguments hold a placeholder of its session that no
vault fills. The letters of a placeholder tell whose it is; for those of 0.3 the store is read.

A session that goes on from toolbus 0.3 keeps the highest number of each kind, the suffix of its
placeholders for secrets, `[github-pat-1-x7k2m5]` and `[email-1]`, and numbers beside digests of the
values: `{"numbers": …, "suffix": …, "values": …}`. None is given any more; those that its model
has read are denied, filled and unquoted like any other.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.redaction.encoded import encoded_texts
from toolbus.redaction.placeholders import KIND, LETTERS, NUMBER, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.messages.records import ToolCall
    from toolbus.redaction.placeholders import SessionPlaceholders

# Brackets may be escaped, as in an address or an expression; six random letters need none.
_OPEN, _CLOSE = r"(?:\[|%5[Bb])", r"\\?(?:\]|%5[Dd])"
LIKELY = re.compile(rf"[a-z0-9]-{NUMBER}(?:-{SUFFIX}|{_CLOSE})")
"""The end of a text that may be such a placeholder."""

_WHOLE = re.compile(rf"\[({KIND})-({NUMBER})-({SUFFIX})\]")


class FormerPlaceholders:
    """The placeholders that 0.3 gave in a session, by the JSON that is *stored* for it."""

    def __init__(self, stored: Any, find_key: Callable[[], bytes | None]) -> None:
        fields = stored if isinstance(stored, Mapping) else {}
        self._numbers = {
            kind: number
            for kind, number in _items(fields.get("numbers"))
            if type(number) is int and number > 0 and re.fullmatch(KIND, kind)
        }
        suffix = fields.get("suffix")
        self.suffix = suffix if isinstance(suffix, str) and re.fullmatch(SUFFIX, suffix) else ""
        self._values, self._find_key = fields.get("values"), find_key
        # The longest first: one kind may end as another one is called.
        names = sorted(map(re.escape, self._numbers), key=len, reverse=True)
        named = rf"({'|'.join(names) or '(?!)'})-({NUMBER})"
        whole = f"{named}-{self.suffix}" if self.suffix else f"{_OPEN}{named}{_CLOSE}"
        self._pattern = re.compile(whole)

    def find(self, text: str) -> str | None:
        """Return how the first of them in *text* is shown, or None."""
        for match in self._pattern.finditer(text):
            if int(match[2]) <= self._numbers[match[1]]:
                # In a denial, which is a result, a suffix would be taken for a quotation.
                return f"[{match[1]}-{match[2]}{'-…' if self.suffix else ''}]"
        return None

    def value_of(self, placeholder: str, values: Iterable[str]) -> str | None:
        """Return which of *values* the *placeholder* of a secret stood for, or None."""
        match = _WHOLE.fullmatch(placeholder)
        if match is None or match[3] != self.suffix:
            return None
        of_kind = dict(_items(dict(_items(self._values)).get(match[1])))
        digests = {digest for digest, number in of_kind.items() if number == int(match[2])}
        if not digests or (key := self._find_key()) is None:
            return None
        return next((value for value in values if _digest(value, key) in digests), None)


async def former_placeholders(state: State | None) -> FormerPlaceholders:
    """Return those of the session of *state*; raises `StoreError`."""
    if state is None:
        return FormerPlaceholders(None, lambda: None)
    return FormerPlaceholders(await state.read(), state.digest_key)


def _digest(value: str, key: bytes) -> str:
    data = f"value:{value}".encode(errors="surrogatepass")
    digest = blake2b(data, key=key, digest_size=16).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, Mapping) else ()


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

"""Live placeholders: placeholders of the session in a call's arguments.

A model that reads a file, changes a line and writes the whole file back would overwrite hidden
values with placeholders. So a call is denied if its arguments hold a placeholder of its session
that no vault fills. A placeholder's letters identify its session; for placeholders of 0.3 the
store is read.

A session resumed from toolbus 0.3 has stored the highest number of each kind, the suffix of its
placeholders for secrets, `[github-pat-1-x7k2m5]` and `[email-1]`, and numbers beside digests of the
values: `{"numbers": …, "suffix": …, "values": …}`. No new ones are made; those that its model has
read are denied, filled and unquoted like any other.
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

# Brackets may be escaped, as in a URL or a regular expression; a suffix of six random letters
# identifies a placeholder without brackets.
_OPEN, _CLOSE = r"(?:\[|%5[Bb])", r"\\?(?:\]|%5[Dd])"
LIKELY = re.compile(rf"[a-z0-9]-{NUMBER}(?:-{SUFFIX}|{_CLOSE})")
"""The end of a text that may be a placeholder of 0.3."""

_WHOLE = re.compile(rf"\[({KIND})-({NUMBER})-({SUFFIX})\]")


class FormerPlaceholders:
    """The placeholders that 0.3 made in a session, from the session's *stored* JSON."""

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
        # The longest first: the name of one kind may be the end of another's.
        names = sorted(map(re.escape, self._numbers), key=len, reverse=True)
        named = rf"({'|'.join(names) or '(?!)'})-({NUMBER})"
        whole = f"{named}-{self.suffix}" if self.suffix else f"{_OPEN}{named}{_CLOSE}"
        self._pattern = re.compile(whole)

    def find(self, text: str) -> str | None:
        """Return the first of them in *text* as a denial shows it, or None."""
        for match in self._pattern.finditer(text):
            if int(match[2]) <= self._numbers[match[1]]:
                # A denial is a result itself: a suffix in it would count as a quoted placeholder.
                return f"[{match[1]}-{match[2]}{'-…' if self.suffix else ''}]"
        return None

    def value_of(self, placeholder: str, values: Iterable[str]) -> str | None:
        """Return the value among *values* that the *placeholder* stands for, or None."""
        match = _WHOLE.fullmatch(placeholder)
        if match is None or match[3] != self.suffix:
            return None
        of_kind = dict(_items(dict(_items(self._values)).get(match[1])))
        digests = {digest for digest, number in of_kind.items() if number == int(match[2])}
        if not digests or (key := self._find_key()) is None:
            return None
        return next((value for value in values if _digest(value, key) in digests), None)


async def former_placeholders(state: State | None) -> FormerPlaceholders:
    """Return the former placeholders of the session of *state*. Raises `StoreError`."""
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
_WAY_OUT = "edit only the other lines instead of rewriting the file, or leave the placeholder out"


class HeldPlaceholder(NamedTuple):
    """A *placeholder* in a call's arguments at the dotted *path*, "" for an argument's name."""

    path: str
    placeholder: str

    def reason(self, call: ToolCall, hidden: str) -> str:
        """Return the reason to deny *call*: its tool would lose the *hidden* value."""
        lost = f"would receive the placeholder instead of the {hidden} behind it, which may be lost"
        return f"{self._place(call)}, and the tool {lost}: {_WAY_OUT}"

    def reason_unknown(self, call: ToolCall) -> str:
        """Return the reason to deny *call*, which a vault cannot fill."""
        return (
            f"{self._place(call)}, whose value is not known any more: "
            "repeat the call that returned it, and then this one"
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
                # A denial is a result itself: the letters would count as a quoted placeholder.
                return HeldPlaceholder(path, f"[{kind[1] if kind else ''}-…]")
        if former is not None and (shown := former.find(text)):
            return HeldPlaceholder(path, shown)
    return None


def may_hold(arguments: Any) -> bool:
    """Return whether a text in *arguments* looks like a placeholder."""
    return any(LETTERS.search(text) or LIKELY.search(text) for _, text in _texts(arguments))


def may_hold_former(arguments: Any) -> bool:
    """Return whether a text in *arguments* looks like a placeholder of 0.3."""
    return any(LIKELY.search(text) for _, text in _texts(arguments))


def gives_a_task(ctx: EventContext[ToolCall], host: Host | None) -> bool:
    """Return whether the call of *ctx* delegates to a sub-agent, whose own calls are judged.

    *host* knows the sub-agents of its agent, but not the agents below them.
    """
    tool = None if host is None or ctx.scope.lineage else host.tools.get(ctx.value.name)
    return tool is not None and tool.delegates


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts of *value*, including names and texts in base64, with their paths."""
    match value:
        case str():
            yield path, value
            for encoded in encoded_texts(value.encode(errors="surrogatepass")):
                yield path, encoded.text
        case Mapping():
            for name, item in value.items():
                yield path, name
                # The reason of a denial is stored, and a long name may be a secret.
                shown = name if _PLAIN.fullmatch(name) else "…"
                yield from _texts(item, f"{path}.{shown}" if path else shown)
        case tuple() | list():
            for index, item in enumerate(value):
                yield from _texts(item, f"{path}[{index}]")

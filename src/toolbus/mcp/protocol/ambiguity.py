"""What one reader tells apart and another does not: names of members, and numbers.

Names must differ (RFC 8259, 4; RFC 7493, 2.3), and integers be exact as doubles (RFC 7493, 2.2).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from toolbus.errors import ToolbusError
from toolbus.mcp.protocol.revisions import CALL, ERROR, LIST

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOTYPE = "__proto__"
"""Where JavaScript copies an object, a member of this name becomes what all others stand for."""

_NO_PROTOTYPE = f"no member may be called {PROTOTYPE!r}"

_MAX = 2**53 - 1
"""JavaScript's `Number.MAX_SAFE_INTEGER`: beyond it, integers share a double with others."""


class AmbiguousJsonError(ToolbusError):
    """What stands at *path* is read as one thing by some and as another by others."""

    def __init__(self, reason: str, path: str = "") -> None:
        self.reason, self.path = reason, path
        super().__init__(reason, path)

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.reason}" if self.path else self.reason


class ExactNumber(float):
    """A number that is not the double next to it; *digits* is how it was written."""

    digits: str


def casefold_simple(name: str) -> str:
    """Return *name* as readers compare it that mind no case: Go's `encoding/json`, and Java.

    That is the simple folding of Unicode, and the dotless i as well.
    """
    return name.lower() if name.isascii() else "".join(map(_fold_letter, name))


@cache
def _fold_letter(letter: str) -> str:
    # Some letters have several in the other case (ß, SS), which the simple folding never does.
    upper = letter.upper()
    lower = (upper if len(upper) == 1 else letter).lower()
    return lower if len(lower) == 1 else letter


def normalize_loose(name: str) -> str:
    """Return *name* as the most generous reader compares it: also without its dashes.

    Python's SDK reads `mime_type` as `mimeType`.
    """
    return casefold_simple(name).replace("_", "").replace("-", "")


def check_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `AmbiguousJsonError` for one of *names* that is one of *known* but for its case."""
    folded = {casefold_simple(name): name for name in known}
    for name in names:
        if name == PROTOTYPE:
            raise AmbiguousJsonError(_NO_PROTOTYPE)
        if (meant := folded.get(casefold_simple(name), name)) != name:
            raise AmbiguousJsonError(f"the member {_short(name)} is {meant!r} to some readers")


def check(value: Any, *, numbers: bool = False, exact: str | None = None) -> None:
    """Raise `AmbiguousJsonError` for two members of one name in any case, and for `__proto__`.

    With *numbers*, or in the member *exact*, also for numbers that JavaScript rounds.
    """
    kind = type(value)
    if kind is dict:
        _check_names(value)
    elif kind is not list:
        rounds = kind is ExactNumber or (kind is int and not -_MAX <= value <= _MAX)
        if numbers and rounds:
            raise AmbiguousJsonError("a number that some readers would round; send it as text")
        return
    for step, inner in value.items() if kind is dict else enumerate(value):
        if type(inner) is str:
            continue
        try:
            check(inner, numbers=numbers or step == exact)
        except AmbiguousJsonError as error:
            error.path = (f".{step:.120}" if kind is dict else f"[{step}]") + error.path
            raise


def _check_names(members: dict[str, Any]) -> None:
    if PROTOTYPE in members:
        raise AmbiguousJsonError(_NO_PROTOTYPE)
    if len(members) < 2 or len({*map(casefold_simple, members)}) == len(members):  # noqa: PLR2004 - a pair
        return
    seen: dict[str, str] = {}
    for name in members:
        if (other := seen.setdefault(casefold_simple(name), name)) != name:
            raise AmbiguousJsonError(
                f"{_short(other)} and {_short(name)} are one member to some readers"
            )


def drop_prototypes(value: Any) -> Any:
    """Return *value* without the members that are called `__proto__`."""
    match value:
        case dict():
            return {
                name: drop_prototypes(inner) for name, inner in value.items() if name != PROTOTYPE
            }
        case list():
            return [drop_prototypes(inner) for inner in value]
    return value


def prune(value: Any) -> list[str]:
    """Take from *value*, said by a server, what generous readers take for a member of MCP.

    Return which members those are.
    """
    pruned: list[str] = []
    if type(value) is list:
        for item in value:
            pruned += prune(item)
    elif type(value) is dict:
        for name in value.keys() - _MEMBERS:
            if (meant := _ALIKE.get(normalize_loose(name))) is not None:
                del value[name]
                pruned.append(meant)
        for name in _HOLDERS & value.keys():
            pruned += prune(value[name])
    return pruned


def _short(name: str) -> str:
    return repr(re.sub(r"(?s)(.{100}).+", r"\1…", name))


# --- the members that MCP knows, where handlers tell one from another by its name -----------------

_OF_CALLS = frozenset(
    {"name", "arguments", "_meta", "task", "inputResponses", "requestState"},
)
CLIENT_MEMBERS = {
    CALL: _OF_CALLS,
    "prompts/get": _OF_CALLS,
    "resources/read": frozenset({"uri", "_meta", "inputResponses", "requestState"}),
}
"""What clients ask, and handlers decide by."""

PRUNED = frozenset(
    {
        *(CALL, LIST, ERROR, "resources/read", "prompts/get", "initialize", "server/discover"),
        *("notifications/message", "notifications/progress"),
    }
)
"""The methods of which handlers see what a server says at its place."""

_MEMBERS = frozenset(
    {
        *("content", "structuredContent", "isError", "resultType", "contents", "messages", "role"),
        *("type", "text", "data", "blob", "mimeType", "uri", "resource", "annotations"),
        *("name", "title", "description", "icons", "execution", "inputSchema", "outputSchema"),
        *("tools", "nextCursor", "ttlMs", "cacheScope", "protocolVersion", "supportedVersions"),
        *("capabilities", "serverInfo", "instructions", "level", "logger", "code", "message"),
        *("progressToken", "progress", "total"),
    }
)
"""The members that MCP knows in what those servers say."""

_HOLDERS = frozenset({"content", "contents", "messages", "resource", "tools"})
"""The members that hold such objects; elsewhere a server may name members as it likes."""

_ALIKE = {normalize_loose(name): name for name in _MEMBERS}

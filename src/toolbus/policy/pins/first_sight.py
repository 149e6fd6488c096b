"""Suspicious shapes in the self-description of a tool, for a person about to accept it.

The shapes are a short list: invisible characters, look-alike letters, tags of chats, names of other
tools and servers, paths of private files, and orders to a model. They are warnings for a
person, and block nothing: harmless descriptions have them, and a hostile text can avoid them.

**Limits.** Orders are found in English only. A plain word such as "search" counts as the name of a
tool only in quotes or beside the word "tool". A server may mention its own tools.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import category, normalize

from msgspec import Struct

from toolbus.policy.pins.pinned_items import SEPARATOR, reveal
from toolbus.settings.look_alikes import alike_places
from toolbus.settings.visible_text import is_visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.policy.pins.pinned_items import PinnedItem, ToolPins

Shape = Literal["invisible", "look-alike", "tag", "tool", "server", "file", "order"]

MOST_WARNINGS = 20
"""Warnings of one item; a person does not read more."""

_BEFORE, _EXCERPT = 30, 110
"""Characters of an excerpt, and how many of them precede the shape."""

_IN_ONE_LINE = {ord(char): " " for char in "\n\r\t"}
_JOINER, _EMOJI_STYLE = _PICTURE = "\u200d", "\ufe0f"
_TAG_START, _TAG_END = 0xE0020, 0xE007E
"""The tag characters, an invisible copy of ASCII: Unicode, 23.9."""

_HOST_TOOLS = (
    *("bash", "shell", "read", "write", "edit", "webfetch", "web_fetch", "websearch", "web_search"),
    *("read_file", "write_file", "apply_patch", "run_terminal_cmd", "run_shell_command"),
)
"""Tools of well-known agents, which no lock file names."""

_WORD = re.compile(r"\w+(?:[.-]+\w+)*")
_QUOTES = frozenset("`'\"\u201c\u201d\u2018\u2019")

_TAG = re.compile(
    r"</?\s*(?:important|critical|urgent|secret|hidden|system|assistant|user|human|developer|admin"
    r"|instructions?|prompt|rules?|policy|sidenote|thinking|tool_(?:use|call|result)|context)\b"
    r"[^<>\n]{0,60}>"
    r"|<\|[\w ]{1,40}\|>|<!--|\[/?(?:INST|SYSTEM)\]|<</?SYS>>",
    re.IGNORECASE,
)

_FILE = re.compile(
    r"(?:~|\$\{?HOME\}?|%(?:USERPROFILE|APPDATA|HOMEPATH)%)[/\\][^\s'\"`,;)]{1,200}"
    r"|(?<![\w./~\\-])/(?:etc|home|root|Users|var|proc|private)/[^\s'\"`,;)]{1,200}"
    r"|(?<!\w)[A-Z]:\\[^\s'\"`,;)]{1,200}"
    r"|(?<![\w.])\.(?:env|ssh|aws|azure|gnupg|kube|docker|netrc|npmrc|pypirc|git-credentials|pgpass"
    r"|config|cursor|claude|codex|gemini|vscode|bashrc|zshrc|bash_history|zsh_history)\b"
    r"|\b(?:id_(?:rsa|dsa|ecdsa|ed25519)|authorized_keys|known_hosts|CLAUDE\.md|AGENTS\.md)\b"
    r"|\b[\w-]{0,40}(?:mcp|credential|secret|passw|token|wallet|private)[\w-]{0,40}\."
    r"(?:json|ya?ml|toml|ini|txt|env|db|dat|pem|key|kdbx)\b",
    re.IGNORECASE,
)

_ORDER = re.compile(
    # The order of calls: "before using this tool, read …".
    r"\b(?:before|prior to|after|instead of|when(?:ever)?|every time|each time)\s+(?:you\s+)?"
    r"(?:us|call|invok|runn|execut)\w*\s+(?:this|any|the|an?other|other|all)\b[^.\n]{0,40}"
    r"\btools?\b|\b(?:always|first|must)\s+(?:call|invoke|run|read|execute|include|send)\b"
    r"|\bmust\s+be\s+(?:called|invoked|used|run|read|copied|sent|forwarded|included)\b"
    # Secrecy: "do not tell the user".
    r"|\bkeep\s+(?:this|it)\s+(?:hidden|secret|private)\b"
    r"|\b(?:do\s+not|don.?t|never|without)\s+(?:\w+\s+){0,2}(?:tell|mention|inform|notif|show"
    r"|reveal|disclos|alert|ask|warn|let)\w*\b[^.\n]{0,40}\b(?:user|human|person|anyone|this|it)\b"
    # An override: "ignore all previous instructions".
    r"|\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}"
    r"\b(?:instruction|prompt|rule|direction|guideline|polic|safety|restriction|tool)\w*"
    # An address: "you must", "IMPORTANT:", "the assistant should".
    r"|\byou\s+(?:must|have\s+to|are\s+required\s+to|shall|will\s+always)\b"
    r"|(?-i:\b(?:IMPORTANT|CRITICAL|MANDATORY|REQUIRED|ATTENTION|SYSTEM|INSTRUCTIONS?)\s*[:!-])"
    r"|(?-i:\b(?:AI|LLM|language model|[Aa]ssistant|[Aa]gent|Claude|GPT|Gemini))"
    r"\s*(?:,|:|must\b|should\b|shall\b|has to\b|needs to\b)"
    # Values to carry: "pass its content as sidenote".
    r"|\b(?:pass|include|attach|append|send|forward|upload|copy|put|provide)\b[^.\n]{0,60}"
    r"\b(?:contents?|conversation|chat|history|system prompt|secrets?|tokens?|passwords?|api keys?"
    r"|credentials?|environment)\b[^.\n]{0,40}\b(?:as|in|into|to|via|with)\b",
    re.IGNORECASE,
)


class SuspiciousText(Struct, frozen=True, omit_defaults=True):
    """A *shape* at *place* in a description, with an *excerpt* in visible characters.

    *note* says more: the name of the tool, or the text of invisible tags. *further* is the
    number of further texts of this shape at the place.
    """

    place: str
    shape: Shape
    excerpt: str
    note: str = ""
    further: int = 0

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        others = f", and {self.further:,} more" if self.further else ""
        return f'{self.place} {_SAID[self.shape]}{note}{others}: "{self.excerpt}"'


_PATTERNS: Mapping[Shape, re.Pattern[str]] = {"tag": _TAG, "file": _FILE, "order": _ORDER}
_SAID: Mapping[Shape, str] = {
    "invisible": "has invisible characters",
    "look-alike": "has letters that look like others",
    "tag": "has a tag as in a chat",
    "tool": "names another tool",
    "server": "names another server",
    "file": "names a file",
    "order": "gives a model an order",
}


class FirstSight:
    """Finds suspicious texts in items; *pins* name the tools and servers for texts to mention."""

    def __init__(self, *pins: ToolPins) -> None:
        self._tools: dict[str, set[str]] = defaultdict(set)
        self._servers: set[str] = set()
        for each in pins:
            self._servers |= {name.casefold() for name in each.servers}
            for server, pinned in each.sources.items():
                for name in pinned.tools:
                    prefix, _, rest = name.partition(SEPARATOR)
                    self._tools[name.casefold()].add(server)
                    if rest and prefix == server:
                        self._tools[rest.casefold()].add(server)

    def suspicious_texts(
        self, name: str, item: PinnedItem, server: str | None, before: PinnedItem | None = None
    ) -> tuple[SuspiciousText, ...]:
        """Return the suspicious texts of *item*, without the texts of *before*.

        *server* is the source of the item, None if it is unknown.
        """
        known = set() if before is None else set(_texts(before.whole))
        texts = [("its name", name), *[each for each in _texts(item.whole) if each not in known]]
        firsts: dict[tuple[str, Shape], tuple[str, str]] = {}
        counts = Counter[tuple[str, Shape]]()
        for place, text in texts:
            for shape, excerpt, note in self._shapes(text, name, server):
                firsts.setdefault((place, shape), (excerpt, note))
                counts[place, shape] += 1
        few = islice(firsts.items(), MOST_WARNINGS)
        return tuple([SuspiciousText(*key, *first, counts[key] - 1) for key, first in few])

    def _shapes(self, text: str, name: str, server: str | None) -> Iterator[tuple[Shape, str, str]]:
        """Yield each shape in *text*, with its excerpt and a note."""
        if hidden := _invisible_places(text):
            yield "invisible", _excerpt(text, hidden[0]), _spelled(text, hidden)
        if alike := [index for index in sorted(alike_places(text)) if text[index].isalnum()]:
            yield "look-alike", _excerpt(text, alike[0]), ""
        # A word that invisible characters divide is still read by a model.
        plain = normalize("NFKC", text)
        shown = "".join([char for char in plain if is_visible(char) or char in "\n\t"])
        for shape, pattern in _PATTERNS.items():
            for match in pattern.finditer(shown):
                yield shape, _excerpt(shown, match.start()), ""
        yield from self._names(shown, name, server)

    def _names(self, text: str, name: str, server: str | None) -> Iterator[tuple[Shape, str, str]]:
        ours = {name.casefold(), name.partition(SEPARATOR)[2].casefold(), (server or "").casefold()}
        for match in _WORD.finditer(text):
            kind = self._kind_of(match[0].casefold(), server)
            if kind and match[0].casefold() not in ours and _is_name(text, match, kind):
                yield kind, _excerpt(text, match.start()), reveal(match[0][:_EXCERPT])

    def _kind_of(self, word: str, server: str | None) -> Literal["tool", "server"] | None:
        """Return whether *word* is the name of another server's or a host's tool, or a server's."""
        sources = self._tools.get(word, set[str]())
        if server not in sources and (sources or word in _HOST_TOOLS):
            return "tool"
        return "server" if word in self._servers else None


def _is_name(text: str, word: re.Match[str], kind: str) -> bool:
    """Return whether *word* is a name: not a plain word, or quoted, or next to *kind*."""
    if not word[0].isalpha():
        return True
    start, end = word.span()
    before, after = text[max(0, start - 12) : start].lower(), text[end : end + 12].lower()
    is_beside = after.lstrip().startswith(kind) or before.rstrip().endswith(kind)
    return is_beside or {before[-1:], after[:1]} <= _QUOTES


def _texts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all strings in *fields*, names of members too, each after its place."""
    stack: list[tuple[str, Any]] = [("", fields)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            for key in reversed([*value]):
                inner = f"{place}.{reveal(str(key)[:40])}" if place else str(key)
                stack.append((inner, value[key]))
                stack.append((f"a name in {place or 'it'}", str(key)))
        elif isinstance(value, list | tuple):
            stack += [(place, each) for each in reversed(value)]


def _invisible_places(text: str) -> list[int]:
    """Return the indexes of invisible characters, except line ends, spaces and parts of emoji."""
    if text.isascii() and text.isprintable():
        return []
    return [
        index
        for index, char in enumerate(text)
        if not is_visible(char)
        and char not in "\n\r\t"
        and category(char) != "Zs"
        and not (char in _PICTURE and index and _is_picture(text[index - 1], char))
    ]


def _is_picture(before: str, char: str) -> bool:
    """Return whether *char* after *before* is a part of an emoji."""
    if char == _JOINER:
        return before == _EMOJI_STYLE or category(before) in ("So", "Sk")
    return before.isdigit() or category(before) in ("So", "Sm", "Po")


def _spelled(text: str, places: Iterable[int]) -> str:
    """Return a note with the text of invisible tag characters, "" without any."""
    codes = [ord(text[index]) for index in places]
    tags = [chr(code - 0xE0000) for code in codes if _TAG_START <= code <= _TAG_END]
    return f"they spell {''.join(tags)[:_EXCERPT]!r}" if tags else ""


def _excerpt(text: str, start: int) -> str:
    begin = max(0, start - _BEFORE)
    cut = text[begin : begin + _EXCERPT]
    head, tail = "…" if begin else "", "…" if begin + len(cut) < len(text) else ""
    return f"{head}{reveal(cut.translate(_IN_ONE_LINE))}{tail}"

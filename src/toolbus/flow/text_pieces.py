"""Pieces of a text by which it is recognised elsewhere: word runs and identifiers, as digests.

- A run of three words with together at least 16 letters, or of five with 14. Common words of
  languages and of code do not count and may stand between, so that chance hardly gives a run.
- An identifier of at least 8 characters: host, URL, path, number, hash, name with digits; a
  mail address of at least 6.
- 8 Chinese characters, or 14 of any script without spaces.

Texts are in their plain form (`plain_texts`). Digests hold for this process alone.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Sixteen letters of three words, with the spaces between.
_RUNS, _SHORTEST_RUN = (3, 5), 18
_SHORTEST_NAME, _SHORTEST_ADDRESS, _MOST_FOLDERS, _MOST_LABELS, _COUNTRY = 8, 6, 8, 8, 2
# Beyond ASCII, a plain form has only letters and digits.
_WORD = re.compile("[a-z0-9\x80-\U0010ffff]{2,}")
# Chinese; and Thai, Lao, Burmese, Khmer, Japanese, mixed with it.
_CHINESE = "\u3400-\u9fff\U00020000-\U0003ffff"
_SIGNS = f"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff{_CHINESE}"
_SPACELESS = re.compile(f"(?=([{_CHINESE}]{{8}}|[{_SIGNS}]{{14}}))")
_TOKEN = re.compile(r"[a-z0-9_@./+%-]{6,}")
_PART, _DIGIT, _MARKS = re.compile("[^/@]+"), re.compile("[0-9]"), "./-_+%@"
_DOTTED = re.compile(r"(?:[a-z0-9_%+\x80-\U0010ffff-]+\.)+([a-z]{2,24})")
# From each group of digits on, and 16 digits as of cards at most: other numbers may stand around.
_NUMBER = re.compile(r"[0-9](?<![0-9].)(?=((?:[ -]?[0-9]){7,15}))")
_DATE = re.compile(
    r"(?:19|20)\d\d([/.-]?)[01]\d\1[0-3]\d(?:[t -]?[0-2]\d)?|\d\d?([/.-])\d\d?\2(?:19|20)?\d\d"
    r"|.*(?:19|20)\d\d-[01]\d-[0-3]\d.*"
)


@cache
def _common(kind: str) -> frozenset[str]:
    """Return the common "words", "names" or "endings", which are read once."""
    lists = tomllib.loads(Path(__file__).with_name("common_words.toml").read_text("utf-8"))
    # Days, hours and amounts.
    return frozenset([*lists[kind].split(), *(f"{number:02}" for number in range(100))])


def pieces_of(plain: str) -> Iterator[tuple[int, int, int]]:
    """Yield the digest, start and end of each piece of *plain*."""
    common = _common("words")
    words = [match for match in _WORD.finditer(plain) if match[0] not in common]
    texts = [match[0] for match in words]
    for number, start in enumerate(words):
        for count in _RUNS:
            run = " ".join(texts[number : number + count])
            if len(run) >= _SHORTEST_RUN and number + count <= len(words):
                yield hash(run), start.start(), words[number + count - 1].end()
                break
    for key, first, end in _names(plain):
        yield hash(key), first, end


def folders_of(plain: str) -> Iterator[tuple[int, int, int]]:
    """Yield the digest, start and end of each folder of the paths in *plain*."""
    for key, start, _ in _names(plain):
        for number in range(1, min(key.count("/"), _MOST_FOLDERS) + 1):
            folder = key.rsplit("/", number)[0]
            if len(folder) >= _SHORTEST_NAME:
                yield hash(folder), start, start + len(folder)


def _names(plain: str) -> Iterator[tuple[str, int, int]]:
    """Yield key, start and end of all identifiers and spaceless pieces; numbers without spaces."""
    for match in _SPACELESS.finditer(plain) if not plain.isascii() else ():
        yield match[1], *match.span(1)
    for match in _NUMBER.finditer(plain):
        start, end = match.start(), match.end(1)
        if not _DATE.fullmatch(plain, start, end):
            yield plain[start:end].replace(" ", "").replace("-", ""), start, end
    for match in _TOKEN.finditer(plain):
        if not match[0].isalpha():
            yield from _names_in(match[0], match.start())


def _names_in(token: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield the identifiers of *token*, which is at *start*: the whole, its parts and its hosts."""
    parts = [match.span() for match in _PART.finditer(token)]
    for begin, end in dict.fromkeys([(0, len(token)), *parts]):
        key = token[begin:end].strip(_MARKS)
        # Right behind a scheme, a host may be short.
        is_url = token.startswith("//") and token[:begin] in {"", "//"} and "." in key
        if _is_name(key) or (is_url and key not in _common("names")):
            first = start + token.index(key, begin)
            yield key, first, first + len(key)
            for domain in _domains_above(key):
                yield domain, first + len(key) - len(domain), first + len(key)


def _domains_above(host: str) -> Iterator[str]:
    """Yield the hosts above *host*, whose first labels may be data."""
    for _ in range(_MOST_LABELS):
        host = host.partition(".")[2]
        if _is_dotted(host) and _is_name(host):
            yield host


def _is_name(key: str) -> bool:
    """Return whether *key* hardly stands in two texts by chance."""
    if len(key) < _SHORTEST_NAME or key in _common("names"):
        return "@" in key and len(key) >= _SHORTEST_ADDRESS
    if _DIGIT.search(key):
        # Numbers are identifiers already, however they are grouped.
        return not key.isdigit() and not _DATE.fullmatch(key)
    # "and/or" does not name a path.
    return "@" in key or key.count("/") > 1 or ("/" in key and "." in key) or _is_dotted(key)


def _is_dotted(key: str) -> bool:
    """Return whether *key* is the name of a host or of a file."""
    dotted = _DOTTED.fullmatch(key)
    return bool(dotted and (len(dotted[1]) == _COUNTRY or dotted[1] in _common("endings")))

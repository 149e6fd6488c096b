"""E-mail addresses, by their `@` and a domain that there is.

What is an address is wider than anybody writes (RFC 5321, RFC 6531): here it is a local part
without quotes or comments, of up to 64 characters, and a domain with a known public suffix. The
list of suffixes is Mozilla's (https://publicsuffix.org), which the library brings along.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from toolbus.redaction.personal.matches import PersonalDataMatch
from toolbus.settings.extras import needs_extra

try:
    from publicsuffixlist import PublicSuffixList
except ImportError as error:
    msg = needs_extra("to look for personal data needs libraries", "personal")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.matches import Effort, Line

_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_DOMAIN = re.compile(r"[^\W_](?:[\w-]{0,62})(?:\.[^\W_](?:[\w-]{0,62}))+")
_LONGEST = 64, 255

# Nobody is reached there, but documents and tests are full of them (RFC 2606, RFC 6762, RFC 8375).
_RESERVED = frozenset({"test", "example", "invalid", "localhost", "local", "internal", "lan"})


def find_emails(line: Line, effort: Effort) -> Iterator[PersonalDataMatch]:
    """Give the addresses in *line*."""
    sign = line.text.find("@", line.start, line.end)
    while sign >= 0:
        effort.spend()
        match = _address(line, sign)
        if match is not None:
            yield match
        sign = line.text.find("@", sign + 1 if match is None else match.end, line.end)


def _address(line: Line, sign: int) -> PersonalDataMatch | None:
    local = _LOCAL.search(line.text[max(sign - _LONGEST[0], line.start) : sign])
    domain = _DOMAIN.match(line.text, sign + 1, min(sign + 1 + _LONGEST[1], line.end))
    if local is None or domain is None:
        return None
    name = local[0].lstrip("!#$%&'*+/=?^`{|}~.-")
    if not name or name.endswith(".") or (name == "git" and _is_remote(line, domain.end())):
        return None
    if not _is_known(domain[0].lower()):
        return None
    return PersonalDataMatch(sign - len(name), domain.end(), "email", f"{name}@{domain[0]}".lower())


def _is_remote(line: Line, end: int) -> bool:
    """Tell whether `git@host` goes on as the address of a repository does."""
    return line.text[end : end + 1] in {":", "/"}


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False)


def _is_known(domain: str) -> bool:
    try:
        ascii_domain = domain.encode("idna").decode()
    except UnicodeError:
        return False
    top = ascii_domain.rpartition(".")[2]
    return top in _RESERVED or _suffixes().publicsuffix(ascii_domain) is not None

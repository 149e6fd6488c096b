"""E-mail addresses, by their `@` and an existing domain.

The standards allow more than is used (RFC 5321, RFC 6531). Here an address is a local part of up
to 64 characters, as a word or in quotes, and a domain whose last label is a public suffix or one
of private networks, or any domain behind a word such as "e-mail". The suffixes are Mozilla's list
(https://publicsuffix.org), shipped with the library.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from publicsuffixlist import PublicSuffixList

from toolbus.redaction.personal.matches import PersonalDataMatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import Appraisal

EMAIL = "email"

# Matched backwards from the "@", so that the search stays linear.
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}")
_QUOTED = re.compile(r'(\\?)"((?:[^"\\\n]|\\.){1,62}?)\1"\Z')
_DOMAIN = re.compile(r"@([^\W_][\w-]{0,62}(?:\.[^\W_][\w-]{0,62})+)")
_REMOTE = {":", "/"}
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 255
# A sentence in Chinese continues behind a domain without a blank.
_BEYOND_ASCII = re.compile(r"[^A-Za-z0-9.-]")
_TOP = re.compile(r"[^\W\d_]{2,63}")

# Reserved names: common in documents and tests (RFC 2606, RFC 8375), and used inside companies
# (RFC 6762, appendix G).
_RESERVED = frozenset(
    {"test", "example", "invalid", "localhost", "localdomain", "local", "internal", "lan"}
    | {"corp", "home", "intranet", "intra", "private"}
)


def find_emails(line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
    """Yield the addresses in *line*."""
    position = line.start
    for domain_match in _DOMAIN.finditer(line.text, line.start, line.end):
        appraisal.check()
        local = _local(line, position, domain_match.start())
        if local is None or (
            local == "git" and line.text[domain_match.end() : domain_match.end() + 1] in _REMOTE
        ):
            continue
        start = domain_match.start() - len(local)
        domain = _domain(line, start, domain_match[1], appraisal)
        if domain is not None:
            position = domain_match.start() + 1 + len(domain)
            value = f"{local}@{domain}".replace("\\", "").lower()
            yield PersonalDataMatch(start, position, EMAIL, value)


def _local(line: Line, earliest: int, sign: int) -> str | None:
    before = line.text[max(sign - _LONGEST_LOCAL - 2, earliest) : sign]
    if before.endswith('"'):
        quoted = _QUOTED.search(before)
        return None if quoted is None else quoted[0]
    backwards = _LOCAL.match(before[: -_LONGEST_LOCAL - 1 : -1])
    name = "" if backwards is None else backwards[0][::-1].lstrip("!#$%&'*+/=?^`{|}~.-")
    return None if not name or name.endswith(".") else name


def _domain(line: Line, start: int, written: str, appraisal: Appraisal) -> str | None:
    """Return the domain at the beginning of *written*, for the address at *start* of *line*."""
    written = written.rstrip("-_")
    for domain in dict.fromkeys((written, _BEYOND_ASCII.split(written, 1)[0].rstrip(".-"))):
        top = domain.rpartition(".")[2].lower()
        if len(domain) > _LONGEST_DOMAIN or "." not in domain:
            continue
        if appraisal.ask(_is_known, top):
            return domain
        # An unknown domain counts if brackets or a word nearby mark the text as an address.
        called = line.text[start - 1 : start] == "<" or EMAIL in line.announced(start)
        if called and _TOP.fullmatch(top):
            return domain
    return None


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False)


def _is_known(top: str) -> bool:
    try:
        ascii_top = top.encode("idna").decode()
    except UnicodeError:
        return False
    # If all its children are suffixes, a top-level domain is not a suffix alone.
    return top in _RESERVED or _suffixes().publicsuffix(f"a.{ascii_top}") is not None

"""Addresses that a person named in a session: hosts, recipients, channels, repositories, accounts.

A domain in a person's message names its hosts and mailboxes. A mailbox names itself, and a URL the
addresses at and below it. An address that programs may read in two ways is never named.

**Limits.** A name such as "Bob" names no address: a stranger's mail can call itself Bob. A domain
that many people share, such as `github.io`, names all of them if a person writes it alone. A text
that a person pastes counts as the person's own.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from unicodedata import is_normalized
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

URL = re.compile(r"(?i)(?<![a-z0-9])[a-z][a-z0-9+.-]{0,20}://[^\s<>\"'`]{1,2048}")
_LONGEST = 2_048
_WORD = re.compile(r"[^\s<>()\[\]{}\"'`,;|\u2018-\u201f\xab\xbb]{1,2048}")
_EMAIL = re.compile(r"[a-z0-9.!#$%&*+/=?^_{|}~-]{1,64}@([^@\s:/?#\[\]]{1,253})")
_SHOWN = re.compile(r"\A[^<>@]{0,200}<([^<>]{1,400})>\Z")
_HOST = re.compile(r"\w(?:[\w-]{0,61}\w)?(?:\.\w(?:[\w-]{0,61}\w)?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ACCOUNT = re.compile(r"(?<![A-Z0-9])[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}(?![A-Z0-9])")
_DOTTED = re.compile(r"(?<![\w+-])[\w+-]++(?:[@.][\w+-]++)+")
_FILE_ENDINGS = frozenset(["cs", "md", "mov", "pl", "ps", "py", "rs", "sh", "so", "tf", "zip"])
"""Top-level domains that are also endings of files: `deploy.sh` in a message names a file."""


class NamedAddresses:
    """The addresses in the *texts* of persons, and all hosts that *trusted_hosts* match."""

    def __init__(self, texts: Iterable[str] = (), trusted_hosts: Iterable[str] = ()) -> None:
        self._trusted = tuple([glob.lower() for glob in trusted_hosts])
        self._words, self._domains, self._urls = set[str](), set[str](), set[str]()
        self._texts: list[str] = []
        self.read(tuple(texts))

    def read(self, texts: Sequence[str]) -> None:
        """Add the addresses in *texts*, all that persons wrote, but for those read before."""
        for text in texts[len(self._texts) :]:
            self._texts.append(_compact(text))
            words = [word.rstrip(".:!?") for word in _WORD.findall(URL.sub(" ", text))]
            for word in map(str.lower, [*URL.findall(text), *words]):
                self._add(word)
        self._words.discard("")

    def is_named(self, address: str) -> bool:
        """Return whether a person named *address*: a URL, host, recipient, account or channel."""
        if len(address) > _LONGEST:
            return False
        address = _SHOWN.sub(r"\1", address.strip().lower()).strip()
        if email := _EMAIL.fullmatch(address):
            return address in self._words or self._covers(host_of(email[1]))
        if account := _ACCOUNT.fullmatch(_compact(address)):
            return any(account[0] in text for text in self._texts)
        host = host_of(address)
        if "." not in host and ":" not in host:
            # A channel, a repository or another name.
            return "." not in address.split("/")[0] and address.strip("#@/~") in self._words
        return self._covers(host) or self._is_at_url(_bare(address))

    def are_named_files(self, text: str) -> bool:
        """Return whether *text* has only paths of files below folders that were named."""
        paths = [path.lstrip("/~").split("/") for path in text.lower().split()]
        # `/home` alone is too far above a file to mean it, and a host is no folder.
        return bool(paths) and all(
            "." not in names[0]
            and ".." not in names
            and any("/".join(names[:end]) in self._words for end in range(2, len(names)))
            for names in paths
        )

    def _add(self, word: str) -> None:
        """Add the address *word*, or a word that may be one."""
        word = word.removeprefix("mailto:")
        self._words.add(word.strip("#@/~"))
        host = "" if _EMAIL.fullmatch(word) else host_of(word)
        if "/" in word and word.strip("/:"):
            self._urls.update([_bare(word), f"//{host}"])
        elif "." in host and host.rpartition(".")[2] not in _FILE_ENDINGS:
            self._domains.add(host)

    def _is_at_url(self, path: str) -> bool:
        """Return whether a URL names *path*: its host alone, or the URL and what is below."""
        ends = [place for place, sign in enumerate(path) if sign in "/?#"]
        above = {f"//{path}", path, *[path[:end] for end in ends]}
        return ".." not in path and "%2e" not in path and not above.isdisjoint(self._urls)

    def _covers(self, host: str) -> bool:
        """Return whether *host* is trusted, or is at or below a domain that was named."""
        labels = host.split(".")
        above = {".".join(labels[start:]) for start in range(len(labels))}
        is_trusted = any(fnmatchcase(host, glob) for glob in self._trusted)
        return bool(host) and (is_trusted or not above.isdisjoint(self._domains))


def _bare(url: str) -> str:
    """Return *url* in small letters, without its scheme and the signs of a sentence behind it."""
    scheme, _, rest = url.lower().partition("://")
    return (rest or scheme).rstrip(".,;:!?)]}/")


def _compact(text: str) -> str:
    return text.upper().replace(" ", "").replace("-", "")


@lru_cache(maxsize=1024)
def host_of(address: str) -> str:
    """Return the host of *address*, a URL or `host:port`, in small letters.

    Returns "" for an address that has no host, or that programs may read in two ways: a number such
    as `0x7f.1` may be an IP address, and some parsers take a backslash for a slash.
    """
    if "\\" in address or not address.isprintable():
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"//{address.removeprefix('//')}")
        name, _ = (parts.hostname or "").removesuffix("."), parts.port
        name = _with_number(name)
    except ValueError:
        return ""
    # Programs differ in how they encode other letters, so a name is compared as it is written. A
    # letter that another form replaces may become a slash or a dot on the way to the DNS.
    is_clear = parts.netloc.count("@") <= 1 and is_normalized("NFKC", name)
    return name if ":" in name or (is_clear and _HOST.fullmatch(name)) else ""


def _with_number(host: str) -> str:
    """Return *host*, an IP address in one form; raises `ValueError` if it may be one or not."""
    if ":" not in host and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return host
    number = ip_address(host)
    return str(getattr(number, "ipv4_mapped", None) or number)


def addresses_in(text: str) -> Iterator[str]:
    """Yield the URLs in *text*, decoded, its hosts and mailboxes in small letters, and accounts."""
    yield from [url for url in map(decoded_url, URL.findall(text)) if url]
    yield from [match[0] for match in _DOTTED.finditer(text.lower())]
    yield from [match[0] for match in _ACCOUNT.finditer(text.upper())]


def decoded_url(text: str) -> str:
    """Return *text*, a URL, without its escapes and the signs of a sentence; "" for other texts."""
    return unquote(text).rstrip(".,;:!?)]}/") if URL.fullmatch(text) else ""


def recipient_of(text: str) -> str:
    """Return the mailbox or account that is all of *text*, as `addresses_in` has it; else ""."""
    account, mailbox = _compact(text), text.strip().lower()
    if _ACCOUNT.fullmatch(account):
        return account
    return mailbox if _EMAIL.fullmatch(mailbox) else ""

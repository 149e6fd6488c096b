"""What is known of personal data: the words, prefixes and shapes that `personal.toml` lists."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

_FILE = Path(__file__).with_name("personal.toml")


class Network(Struct, frozen=True, forbid_unknown_fields=True):
    """The cards of a network: a pattern for their *prefix*, and how many digits they have."""

    name: str
    prefix: str
    sizes: frozenset[int]


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of *country*, with check digits as *module* of python-stdnum says.

    *shape* is taken anywhere, *bare* near one of *words*. So is *weak*, which other numbers look
    like as well, and anywhere if somebody named the country.
    """

    name: str
    country: str
    module: str = ""
    shape: str = ""
    bare: str = ""
    weak: str = ""
    words: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        """What its words are for."""
        return self.module or self.country


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """All of the file."""

    ambiguous: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    networks: tuple[Network, ...]
    identities: tuple[Identity, ...]


@cache
def facts() -> Facts:
    """Return what is known, which is read once."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=Facts)

"""Facts about personal data: the words, prefixes and shapes in `personal.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

_FILE = Path(__file__).with_name("personal.toml")


class Network(Struct, frozen=True, forbid_unknown_fields=True):
    """The cards of a network: a pattern of their *prefix*, and their possible lengths in digits."""

    name: str
    prefix: str
    sizes: frozenset[int]


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """An identity number of *country*, with the check digits of *module* of python-stdnum.

    *shape* matches anywhere, *bare* only near one of *words*. *weak*, a shape that other numbers
    have as well, matches near a word, or anywhere if the settings name the country.
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
        """The topic of its words."""
        return self.module or self.country


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `personal.toml`."""

    ambiguous: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    networks: tuple[Network, ...]
    identities: tuple[Identity, ...]


@cache
def facts() -> Facts:
    """Return the facts, which are read once."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=Facts)

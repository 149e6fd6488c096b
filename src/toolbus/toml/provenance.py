"""The source of a component's settings, for components that read a file which they name.

While a configuration's components are made, `provenance` says which configuration it is.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Provenance(NamedTuple):
    """The *files* of a configuration, itself first, by real paths, and what is thought of others.

    *check_first* tells why a file that it names is not to be used with these bytes, *check_changed*
    the same of one that has changed since; None: it may be.
    """

    files: tuple[Path, ...]
    check_first: Callable[[Path, bytes], str | None]
    check_changed: Callable[[Path, bytes], str | None]


provenance: ContextVar[Provenance | None] = ContextVar("toolbus_provenance", default=None)
"""None where components are made by code: who names a file there trusts it, as it is then."""

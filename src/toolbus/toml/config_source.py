"""The configuration that components are being made for.

`config_source` is set while a configuration makes its components. A component that reads a file
named in its settings finds there whether the file is trusted.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class ConfigSource(NamedTuple):
    """The real paths of a configuration's *files*, itself first, and two checks of their bytes.

    *check_first* returns why a named file must not be used with these bytes, or None;
    *check_changed* does the same for a file that has changed since.
    """

    files: tuple[Path, ...]
    check_first: Callable[[Path, bytes], str | None]
    check_changed: Callable[[Path, bytes], str | None]


config_source: ContextVar[ConfigSource | None] = ContextVar("toolbus_config_source", default=None)
"""None for components made by code: naming a file there is trusting its current content."""

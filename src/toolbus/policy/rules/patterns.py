"""Regular expressions of RE2, which search in linear time even in hostile texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.errors import LoadError
from toolbus.settings.extras import needs_extra
from toolbus.toml.values import MisfitError

try:
    import re2  # type: ignore[import-untyped]  # it has no types
except ModuleNotFoundError as error:
    reason = needs_extra("rules with a `pattern` need RE2", "policy")
    raise LoadError(reason) from error

if TYPE_CHECKING:
    from collections.abc import Callable

_MEMORY = 8 << 20
"""Bytes of memory for one pattern; RE2 refuses a pattern that needs more."""


def read_pattern(text: str) -> Callable[[str], bool]:
    """Return a search for the RE2 pattern *text* (https://github.com/google/re2/wiki/Syntax).

    Raises `MisfitError` for an invalid pattern.
    """
    options: Any = re2.Options()
    # Errors are raised; RE2 would also write them to standard error.
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        raise MisfitError(f"RE2 cannot read {text!r}: {_format_error(error)}", "pattern") from None
    return lambda value: compiled.search(value) is not None


def _format_error(error: Exception) -> str:
    reason = error.args[0] if error.args else "no pattern"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)

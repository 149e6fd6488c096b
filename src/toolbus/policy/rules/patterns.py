"""Patterns of RE2, whose time grows with the text alone, however hostile that is."""

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
"""Bytes of memory for one pattern; one that needs more is refused."""


def read_pattern(text: str) -> Callable[[str], bool]:
    """Return the search for the pattern *text* of RE2 (https://github.com/google/re2/wiki/Syntax).

    Raises `MisfitError` for what RE2 cannot read.
    """
    options: Any = re2.Options()
    # What is wrong is raised; RE2 itself would write it to standard error.
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        raise MisfitError(f"RE2 cannot read {text!r}: {_worded(error)}", "pattern") from None
    return lambda value: compiled.search(value) is not None


def _worded(error: Exception) -> str:
    reason = error.args[0] if error.args else "no pattern"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)

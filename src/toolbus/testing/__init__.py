"""Tools for tests of your handlers and stores; `toolbus guide testing` shows their use.

`check_adapter`, `check_guard` and `check_handler` search for a case in which a handler breaks a
law, and `strategies` draws values for handlers: these need `toolbus[testing]`, which installs
hypothesis. `check_store` tests a store against the `Store` protocol. The rest are assertions, fakes
and a ledger as text; for pytest there are the fixtures `bus` and `ledger_snapshot`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.errors import LawBroken as LawBroken
    from toolbus.testing.assertions import assert_allowed as assert_allowed
    from toolbus.testing.assertions import assert_denied as assert_denied
    from toolbus.testing.assertions import assert_unchanged as assert_unchanged
    from toolbus.testing.checks import check_adapter as check_adapter
    from toolbus.testing.checks import check_guard as check_guard
    from toolbus.testing.checks import check_handler as check_handler
    from toolbus.testing.fakes import FakeClock as FakeClock
    from toolbus.testing.fakes import Recorder as Recorder
    from toolbus.testing.fakes import counting_ids as counting_ids
    from toolbus.testing.ledger_snapshot import LedgerSnapshot as LedgerSnapshot
    from toolbus.testing.ledger_snapshot import ledger_text as ledger_text
    from toolbus.testing.store_check import check_store as check_store

_FACE = {
    "FakeClock": "fakes",
    "LawBroken": ".errors",
    "LedgerSnapshot": "ledger_snapshot",
    "Recorder": "fakes",
    "assert_allowed": "assertions",
    "assert_denied": "assertions",
    "assert_unchanged": "assertions",
    "check_adapter": "checks",
    "check_guard": "checks",
    "check_handler": "checks",
    "check_store": "store_check",
    "counting_ids": "fakes",
    "ledger_text": "ledger_snapshot",
}

__all__ = list(_FACE)

__getattr__, _ = lazy_exports(__name__, _FACE)


def __dir__() -> list[str]:
    # Only importable names: `pydoc` reads each of them, and must work without the extra.
    whole = find_spec("hypothesis") is not None
    return [name for name in __all__ if whole or _FACE[name] != "checks"]

"""The pytest plugin of toolbus: a bus for each test, and ledger snapshots beside the tests.

It is outside the package so that pytest loads it without importing the package, for speed and for
coverage, whose measurement begins later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus import EventBus
    from toolbus.testing.ledger_snapshot import LedgerSnapshot
    from toolbus.testing.watched_bus import WatchedBus

_BUS: pytest.StashKey[WatchedBus] = pytest.StashKey()
_MARKER = "handler_failures(*names): handlers may fail on the fixture `bus`; without names, any"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--toolbus-update`."""
    group = parser.getgroup("toolbus", "toolbus")
    text = "write the ledgers that `ledger_snapshot` compares, instead of comparing them"
    group.addoption("--toolbus-update", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker `handler_failures`."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a passed test if handlers on its `bus` failed."""
    yield
    watched = item.stash.get(_BUS, None)
    if watched is not None:
        marks = list(item.iter_markers("handler_failures"))
        expected = [name for mark in marks for name in mark.args]
        any_may_fail = any(not mark.args for mark in marks)
        if problems := watched.problems(None if any_may_fail else expected):
            pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[EventBus]:
    """Yield a bus that is closed after the test; a handler's failure fails the test.

    `@pytest.mark.handler_failures("name", …)` names the handlers that may fail; no name means all.
    """
    from toolbus.testing.watched_bus import WatchedBus  # noqa: PLC0415 - only when it is used

    watched = request.node.stash[_BUS] = WatchedBus()
    yield watched.bus
    watched.close()


@pytest.fixture
def ledger_snapshot(request: pytest.FixtureRequest) -> LedgerSnapshot:
    """Return a function that compares a ledger with the snapshot in `snapshots/`, beside the test.

    `ledger_snapshot(agent.ledger)` raises if they differ; `pytest --toolbus-update` writes it.
    """
    from toolbus.testing.ledger_snapshot import LedgerSnapshot  # noqa: PLC0415 - only when it is used

    folder = request.path.parent / "snapshots" / request.path.stem
    update = request.config.getoption("--toolbus-update")
    return LedgerSnapshot(folder, request.node.name, update=update)

"""What all tests share: how thorough they are, and how an `async def` test runs.

`TOOLBUS_TESTS` is the level: `quick`, the default, leaves out what is marked `full` (real servers,
Node, many processes) unless a path is given, and draws few cases; `full` runs all; `long` runs all,
with as many cases as a machine does in an hour or more.
"""

import asyncio
import functools
import gc
import inspect
import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

pytest_plugins = [
    *("pytester", "browsers", "durable_engines", "framework_plays", "host_reports"),
    *("killed_programs", "live_models", "persons", "postgres_server", "three_stores"),
]

LEVEL = os.environ.get("TOOLBUS_TESTS", "quick")

# Neither the clock of a slow machine nor chance decides whether a run passes.
settings.register_profile(
    "some",
    deadline=None,
    derandomize=True,
    max_examples=60,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("few", settings.get_profile("some"), max_examples=20)
settings.register_profile(
    "many",
    deadline=None,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis/examples"),
    max_examples=1000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile({"quick": "few", "long": "many"}.get(LEVEL, "some"))


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Tell whether there is time for very many cases: `TOOLBUS_TESTS=long`."""
    return LEVEL == "long"


class FromThisTest(logging.Filter):
    """Lets `caplog` pass by what threads of earlier tests log, which may come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self._earlier: WeakSet[threading.Thread] = WeakSet()

    def begin(self) -> None:
        """Take all threads but this one for those of earlier tests."""
        here = threading.current_thread()
        self._earlier = WeakSet(each for each in threading.enumerate() if each is not here)

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.current_thread() not in self._earlier


FROM_THIS_TEST = FromThisTest()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a level that there is not: a typo would run less; hear Ctrl-C in any case."""
    if LEVEL not in {"quick", "full", "long", "live"}:
        raise pytest.UsageError(f"TOOLBUS_TESTS is quick, full, long or live, not {LEVEL!r}")
    # A shell has what runs in its background ignore Ctrl-C, and what that starts would, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Nothing that a test does is left in the folders of who runs it.
    folder = tempfile.mkdtemp(prefix="toolbus-tests-")
    config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `full` of a quick run, unless a path was given."""
    if LEVEL != "quick" or config.getoption("file_or_dir"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is collected out of all that is looked through for garbage: it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have `caplog` keep what the current test logs."""
    if logs := session.config.pluginmanager.get_plugin("logging-plugin"):
        logs.caplog_handler.addFilter(FROM_THIS_TEST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Note the threads of earlier tests."""
    FROM_THIS_TEST.begin()


def synchronous(function):
    """Return *function*, async, as one that runs in an event loop of its own."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        return asyncio.run(function(*args, **kwargs), debug=False)

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Make an `async def` test, also below `@given`, one that pytest can call."""
    if given := getattr(pyfuncitem.obj, "hypothesis", None):
        if inspect.iscoroutinefunction(given.inner_test):
            given.inner_test = synchronous(given.inner_test)
    elif inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = synchronous(pyfuncitem.obj)

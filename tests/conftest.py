"""What all tests share: how thorough they are, and how an `async def` test runs."""

import asyncio
import functools
import inspect
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

pytest_plugins = ["pytester"]

LEVEL = os.environ.get("TOOLBUS_TESTS", "quick")

# Neither the clock of a slow machine nor chance decides whether a quick run passes.
settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    max_examples=60,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full",
    deadline=None,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis/examples"),
    max_examples=1000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("full" if LEVEL == "long" else LEVEL)


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Tell whether the full suite runs: `TOOLBUS_TESTS=full`, or `long`, which takes hours."""
    return LEVEL != "quick"


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

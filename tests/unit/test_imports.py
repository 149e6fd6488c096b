import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolbus
from toolbus import testing


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after *code*."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    plain = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain
    )
    return set(json.loads(done.stdout))


def test_the_face_pulls_in_msgspec_and_the_standard_library_only():
    before = {name.partition(".")[0] for name in loaded_by("")}

    after = {name.partition(".")[0] for name in loaded_by("from toolbus import *")}

    foreign = after - before - set(sys.stdlib_module_names)
    # msgspec takes typing_extensions where somebody else has installed it.
    assert foreign - {"typing_extensions"} == {"msgspec", "toolbus"}


def test_the_first_signal_loads_blinker():
    code = "from toolbus import EventBus, events; bus = EventBus(); "

    assert "blinker" not in loaded_by(f"{code} bus.on(events.RUN_AFTER, print)")
    assert "blinker" in loaded_by(f"{code} bus.signal(events.RUN_AFTER)")


@pytest.mark.parametrize("module", ["toolbus", "toolbus.messages", "toolbus.events"])
def test_a_low_floor_loads_no_asyncio_and_no_logging(module: str):
    after = loaded_by(f"import {module}")

    assert not {"asyncio", "logging"} & after


def test_the_bus_loads_no_asyncio_until_it_needs_it():
    code = (
        "from toolbus import EventBus, events\n"
        "bus = EventBus()\n"
        "bus.on(events.RUN_AFTER, lambda ctx: None)\n"
        "bus.do(events.RUN_AFTER, events.RunResult(status='ok'))\n"
    )

    assert "asyncio" not in loaded_by(code)


def test_the_face_loads_nothing_slow_that_its_dependencies_do_not_load():
    before = loaded_by("import asyncio, blinker, msgspec")

    after = loaded_by("from toolbus import *")

    slow = {"difflib", "fractions", "hashlib", "json", "random", "secrets", "urllib.parse"}
    assert not slow & (after - before)


def test_only_the_sqlite_store_loads_sqlite3():
    assert "sqlite3" not in loaded_by("from toolbus import *")
    assert "sqlite3" not in loaded_by("import toolbus.store, toolbus.store.sqlite")
    assert "sqlite3" in loaded_by("from toolbus.store import SqliteStore")


def test_only_the_tools_of_mcp_servers_load_the_mcp_sdk():
    heavy = {"anyio", "httpx2", "mcp", "pydantic"}

    assert not heavy & loaded_by("from toolbus import *; from toolbus.tools import Toolset")
    assert heavy <= loaded_by("import toolbus.mcp.client")


def test_only_strategies_and_checks_load_hypothesis():
    light = "from toolbus.testing import FakeClock, LawBroken, Recorder, assert_denied, ledger_text"

    assert not {"hypothesis", "pytest"} & loaded_by(f"{light}; import toolbus.testing.watched_bus")
    assert "hypothesis" in loaded_by("from toolbus.testing import check_adapter")
    assert not {"hypothesis", "toolbus"} & loaded_by("import toolbus_pytest")


def test_the_face_is_sorted_and_complete():
    assert toolbus.__all__ == sorted(toolbus.__all__)
    assert all(getattr(toolbus, name) is not None for name in toolbus.__all__)
    assert dir(toolbus) == toolbus.__all__


def test_the_face_of_testing_is_sorted_and_complete():
    assert testing.__all__ == sorted(testing.__all__)
    assert all(getattr(testing, name) is not None for name in testing.__all__)
    assert dir(testing) == testing.__all__
    with pytest.raises(AttributeError, match=r"'toolbus\.testing' has no attribute 'Nothing'"):
        testing.Nothing  # noqa: B018 - asking is the point


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'toolbus' has no attribute 'Nothing'"):
        toolbus.Nothing  # noqa: B018 - asking is the point


def test_only_a_proxy_that_listens_loads_h11():
    before = loaded_by("import toolbus.cli.proxy")
    after = loaded_by("import toolbus.mcp.http.listener")

    assert not {"h11", "toolbus.mcp.http.relay"} & before
    assert "h11" in after


def test_the_benchmarks_import_only_names_that_exist():
    files = (Path(__file__).parents[2] / "benchmarks").glob("bench_*.py")
    imports = "; ".join([f"import benchmarks.{file.stem}" for file in files])

    assert "benchmarks.bench_replay" in loaded_by(imports)

"""Unusual files and receivers in the list of handlers."""

import sys
from functools import partial

import pytest

from toolbus import EventBus
from toolbus.cli.handlers import read_handlers
from toolbus.cli.output.component_list import short_place
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import LoadedTarget, load
from toolbus.errors import LoadError
from toolbus.events.catalogue import RUN_AFTER


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """Keep what loading does to the path, and to the modules, out of other tests."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


def target_of(bus):
    return LoadedTarget(bus, "x", "bus", ComponentHost())


def test_receivers_need_not_be_functions():
    bus = EventBus()
    bus.signal(RUN_AFTER).connect(partial(print, end=""), weak=False)

    (event,) = read_handlers(target_of(bus)).events

    assert [(one.name, one.where) for one in event.receivers] == [("print", "")]


def test_receivers_that_died_are_left_out():
    bus = EventBus()

    def receiver(sender, ctx): ...

    bus.signal(RUN_AFTER).connect(receiver)
    del receiver

    assert read_handlers(target_of(bus)).events == ()


def test_a_package_of_a_known_name_is_not_mistaken(tmp_path):
    # Another `email` is imported already, and it is not that of the file.
    package = tmp_path / "email"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "charset.py").write_text("from toolbus import EventBus\nbus = EventBus()\n")

    assert load(str(package / "charset.py")).target.endswith("charset.py:bus")


def test_a_package_itself_can_be_the_file(tmp_path):
    package = tmp_path / "a_shop_of_ours"
    package.mkdir()
    (package / "__init__.py").write_text("from toolbus import EventBus\nbus = EventBus()\n")

    assert load(str(package / "__init__.py")).kind == "bus"


def test_a_file_named_like_a_target_is_the_file(tmp_path):
    (tmp_path / "a:b.py").write_text("from toolbus import EventBus\nbus = EventBus()\n")

    assert load(str(tmp_path / "a:b.py")).kind == "bus"
    assert load(f"{tmp_path}/a:b.py:bus").kind == "bus"
    with pytest.raises(LoadError, match="there is no file"):
        load(f"{tmp_path}/a:c.py")


def test_a_module_that_hides_its_error_place_is_named(tmp_path):
    (tmp_path / "bad.py").write_bytes(b"\xff\xfe")

    with pytest.raises(LoadError, match=r"bad\.py:\d+: (SyntaxError|UnicodeDecodeError): "):
        load(str(tmp_path / "bad.py"))


def test_places_elsewhere_stay_whole():
    assert short_place("/somewhere/else.py:3") == "/somewhere/else.py:3"

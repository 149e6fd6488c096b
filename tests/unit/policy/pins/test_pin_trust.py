"""A lock file of a project: it belongs to what was trusted."""

import logging

import pytest

from toolbus import EventBus, Scope, events
from toolbus.config import configuration
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import trust
from toolbus.errors import LoadError
from toolbus.events.call_values import ToolSpec
from toolbus.policy.pins.pinned_items import PinnedServer, ToolPins, pin_tool, write_lock

SPEC = ToolSpec(name="read", description="Reads.")
USE = '[[component]]\nuse = "toolbus.policy.pins.pin_tools:PinTools"\n'
NAMED = 'settings = { file = "toolbus.lock" }\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "shop"
    folder.mkdir(mode=0o700)
    monkeypatch.chdir(folder)
    write(folder, "toolbus.lock", lock_of(SPEC))
    return folder


def write(folder, name, content):
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o600)


def lock_of(spec):
    return write_lock(ToolPins(servers={"a": PinnedServer({spec.name: pin_tool(spec)})}))


def configured(project, settings):
    write(project, "toolbus.toml", (USE + settings).encode())
    trust(take_snapshot(project / "toolbus.toml"))
    (component,) = configuration.read().components
    return component


async def provided(component):
    bus = EventBus()
    async with component.installed(bus):
        context = await bus.apply(events.TOOLS_PROVIDE, (SPEC,), scope=Scope(session_id="s"))
    return context.value


async def test_a_lock_file_that_was_trusted_is_used(project):
    assert await provided(configured(project, NAMED)) == (SPEC,)


async def test_a_lock_file_that_changed_since_takes_the_trust(project):
    configured(project, NAMED)
    write(project, "toolbus.lock", lock_of(ToolSpec(name="read", description="Sends.")))

    with pytest.raises(LoadError, match="trust"):
        configuration.read()


async def test_a_lock_file_that_nobody_trusted_is_told(project, caplog):
    assert await provided(configured(project, "")) == ()

    (error,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "it differs from the version trusted" in error.getMessage()
    assert "set `settings = { file = 'toolbus.lock' }` and trust that" in error.getMessage()


async def test_who_names_the_configuration_trusts_the_file_beside_it(
    project, tmp_path, monkeypatch
):
    configured(project, "")
    monkeypatch.chdir(tmp_path)
    (component,) = configuration.read(project / "toolbus.toml").components

    assert await provided(component) == (SPEC,)

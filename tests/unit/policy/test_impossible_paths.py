"""Paths that no system takes: they are judged, and no guard fails on them."""

import pytest

from toolbus import EventBus, ToolCall
from toolbus.events import TOOL_CALL_BEFORE, Scope
from toolbus.policy.policy import Policy

RULES = [
    {"name": "files", "verdict": "deny", "reads": "**/.env", "writes": "~/**"},
    {"name": "reading", "verdict": "allow", "effects": "read"},
]


@pytest.mark.parametrize("path", ["\0", "src/\0", "x" * 5_000])
@pytest.mark.parametrize("name", ["a", "read_file", "write_file", "list_directory"])
async def test_a_path_that_no_system_takes_is_judged(tmp_path, name, path):
    bus, records = EventBus(), []
    bus.tap(records.append)
    call = ToolCall(id="c", name=name, arguments={"path": path})

    async with Policy(rule=RULES, folder=tmp_path).installed(bus):
        await bus.apply(TOOL_CALL_BEFORE, call, scope=Scope())

    statuses = {entry.status for record in records for entry in record.entries}
    assert statuses
    assert "error" not in statuses
    assert "failed" not in statuses


async def test_a_text_longer_than_a_files_name_is_no_protected_file(tmp_path):
    bus, tools = EventBus(), {"send": {"effects": ["network"]}}
    mail = {"to": "bob@partner.example", "body": "A few words that go on. " * 20}

    async with Policy(default="allow", tools=tools, folder=tmp_path).installed(bus):
        context = await bus.apply(TOOL_CALL_BEFORE, ToolCall(name="send", arguments=mail))

    assert context.denied is None
    assert context.asked is None

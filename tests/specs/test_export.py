"""The scenarios of `specs/export.md`."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from io import BytesIO

import pytest

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    ToolAdapter,
    ToolCall,
    events,
    guard,
)
from toolbus.formats import MessageItem, Problem, RecordItem, read
from toolbus.models.scripted import ScriptedModel
from toolbus.store.sqlite import SqliteStore

CANARY = "canary-5f1c2e"


class Hide(ToolAdapter):
    tools = "look"

    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace(CANARY, "[hidden]"))


class Rules(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Hide())

    @guard(events.MESSAGE_APPEND_BEFORE)
    def refuse(self, ctx):
        return Deny("it has a secret") if CANARY in ctx.value.text else None


def look() -> str:
    return f"found {CANARY}"


def dump() -> str:
    return f"all of {CANARY}"


async def record(path, *sessions):
    async with SqliteStore(path) as store:
        for session in sessions:
            calls = [ToolCall(id=f"{session}-{one}", name=one) for one in ("look", "dump")]
            asked = AssistantMessage(id=f"{session}-a", tool_calls=tuple(calls))
            model = ScriptedModel([asked, "done"])
            options = {"tools": [look, dump], "components": [Rules()]}
            async with Agent(model, store=store, session_id=session, **options) as agent:
                await agent.run("go")


async def stored(path):
    async with SqliteStore(path, read_only=True) as store:
        infos = await store.sessions()
        return (
            [one for info in infos for one in await store.read(info.id)],
            [one for info in infos for one in await store.records(info.id)],
        )


@pytest.fixture
def database(tmp_path, environment):
    path = tmp_path / "here" / "agent.db"
    asyncio.run(record(path, "alpha", "beta"))
    return path


def test_an_export_reads_back_equal(database, command):
    done = command("export", database.name)

    items = list(read(BytesIO(done.stdout.encode()), "x"))
    messages, records = asyncio.run(stored(database))
    assert (done.returncode, done.stderr) == (0, "")
    assert [one.message for one in items if isinstance(one, MessageItem)] == messages
    assert [one.record for one in items if isinstance(one, RecordItem)] == records
    assert records
    assert not [one for one in items if isinstance(one, Problem)]


def test_only_the_named_sessions_are_exported(database, command):
    done = command("export", database.name, "beta")

    assert '"beta"' in done.stdout
    assert "alpha" not in done.stdout


def test_an_unknown_session_is_named(database, command):
    done = command("export", database.name, "bety")

    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'beta'?" in done.stderr


def test_refused_text_is_in_no_export(database, command):
    done = command("export", database.name)

    assert "[hidden]" in done.stdout
    assert "it has a secret" in done.stdout
    assert CANARY not in done.stdout


def test_a_file_that_exists_is_left_alone(database, command):
    file = database.with_name("out.jsonl")
    file.write_text("mine")

    done = command("export", database.name, "-o", file.name)

    assert done.returncode == 2
    assert "--force" in done.stderr
    assert file.read_text() == "mine"


def test_force_writes_over_a_file(database, command):
    file = database.with_name("out.jsonl")
    file.write_text("mine")

    done = command("export", database.name, "-o", file.name, "--force")

    assert (done.returncode, done.stdout) == (0, "")
    assert file.read_text() == command("export", database.name).stdout


def test_an_export_is_its_owner_s(database, command):
    new, old = [database.with_name(name) for name in ("new.jsonl", "old.jsonl")]
    old.touch()
    old.chmod(0o640)

    before = os.umask(0)
    try:
        done = [command("export", database.name, "-o", one.name, "--force") for one in (new, old)]
    finally:
        os.umask(before)

    assert [one.returncode for one in done] == [0, 0]
    assert [one.stat().st_mode & 0o777 for one in (new, old)] == [0o600, 0o640]


def test_a_failure_leaves_no_half_file(database, command):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE messages SET body = '{' WHERE key = 6")
        connection.commit()

    done = command("export", database.name, "-o", "out.jsonl")

    assert done.returncode == 1
    assert "of session 'beta' is damaged" in done.stderr
    assert [one.name for one in database.parent.iterdir() if "out" in one.name] == []


def test_a_reader_may_leave_early(database, environment):
    program = f"{sys.executable} -m toolbus export {database} | head -n 1"

    done = subprocess.run(
        ["bash", "-c", program], env=environment, capture_output=True, text=True, check=False
    )

    assert done.stdout == '{"type":"toolbus","version":1}\n'
    assert done.stderr == ""

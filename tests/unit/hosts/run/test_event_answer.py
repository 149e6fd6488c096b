"""The answer to one event: the host's block for whatever fails, and whose rules hold."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from plain_dialect import PlainDialect, told
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import revoke, trust
from toolbus.hosts.run import event_input
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.hosts.run.service import HookService
from toolbus.hosts.run.watched_files import WatchedFiles

RULES = """
from toolbus import AgentComponent, Deny, events, guard


class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny({reason!r})
"""
CONFIGURATION = '[[component]]\nuse = "./rules.py:Rules"\n'


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    monkeypatch.setattr(event_input, "dialect", lambda _: PlainDialect())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (tmp_path / "home/config").mkdir(parents=True)
    monkeypatch.chdir(work)


def settings(tmp_path, **others):
    return HookSettings(store=tmp_path / "state/hooks.db", **others)


def named(tmp_path, source, limit=20.0):
    folder = tmp_path / "named"
    folder.mkdir(exist_ok=True)
    (folder / "rules.py").write_text(textwrap.dedent(source))
    (folder / "toolbus.toml").write_text(CONFIGURATION)
    return settings(tmp_path, config=str(folder / "toolbus.toml"), limit=limit)


def project(folder, reason):
    (folder / "rules.py").write_text(RULES.format(reason=reason))
    (folder / "toolbus.toml").write_text(CONFIGURATION)
    trust(take_snapshot(folder / "toolbus.toml"))


def call(folder="", session="s1", call_id="c1"):
    made = {"id": call_id, "name": "shell", "arguments": {"command": "ls"}}
    return json.dumps({"session_id": session, "folder": str(folder), "call": made}).encode()


def asked(environment, data=None, name="call"):
    return told(answer("plain", name, call() if data is None else data, environment))


def test_without_a_configuration_nothing_is_kept(tmp_path):
    assert asked(settings(tmp_path)) == {}
    assert not (tmp_path / "state").exists()


def test_a_named_configuration_judges(tmp_path):
    assert asked(named(tmp_path, RULES.format(reason="no"))) == {"denied": "no"}
    file = tmp_path / "state/hooks.db"
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b"null", b'{"a":' * 5_000, b'{"x": NaN}'],
)
def test_garbage_is_blocked(tmp_path, data):
    assert set(asked(settings(tmp_path), data)) == {"blocked"}


def test_what_is_too_large_is_blocked(tmp_path, monkeypatch):
    monkeypatch.setattr(event_input, "MAX_BYTES", 10)
    assert "more than 10 bytes" in asked(settings(tmp_path))["blocked"]


def test_a_named_configuration_that_is_not_there_blocks(tmp_path):
    missing = settings(tmp_path, config=str(tmp_path / "missing.toml"))
    assert set(asked(missing)) == {"blocked"}


@pytest.mark.parametrize(
    "source",
    [
        "import nothing_of_that_name",
        "raise RuntimeError('boom')",
        "class Rules: pass",
        "def (",
    ],
)
def test_a_broken_component_blocks(tmp_path, source):
    assert set(asked(named(tmp_path, source))) == {"blocked"}


def test_a_configuration_that_is_none_blocks(tmp_path):
    file = tmp_path / "broken.toml"
    file.write_text("[[component")
    assert set(asked(settings(tmp_path, config=str(file)))) == {"blocked"}


def test_what_errors_quote_is_not_told(tmp_path):
    source = """
        from toolbus import AgentComponent, events, on
        class Rules(AgentComponent):
            @on(events.TOOL_CALL_BEFORE, on_error="raise")
            def judge(self, ctx):
                raise ValueError("hunter2hunter2")
    """
    made = answer("plain", "call", call(), named(tmp_path, source))
    assert set(told(made)) & {"blocked", "denied"}
    assert b"hunter2" not in made.stdout + made.stderr


@pytest.mark.parametrize(
    ("where", "wait"),
    [
        pytest.param("import", "time.sleep(1000)", marks=pytest.mark.full),
        ("handler", "threading.Event().wait()"),
    ],
)
def test_what_hangs_is_blocked(tmp_path, where, wait):
    at_import, in_handler = (wait, "pass") if where == "import" else ("pass", wait)
    source = f"""
        import threading, time
        from toolbus import AgentComponent, events, on
        {at_import}
        class Rules(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def judge(self, ctx):
                {in_handler}
    """
    environment = named(tmp_path, source)
    # In a process of its own, which ends in spite of what hangs there.
    words = ("--config", environment.config, "--store", str(environment.store), "--limit", "0.5")
    done = subprocess.run(
        [sys.executable, "-m", "toolbus", "hook", "pi", "tool_call", *words],
        input=json.dumps(
            {"session_id": "s", "folder": "/", "call_id": "c", "tool": "bash", "arguments": {}}
        ).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert "timed out" in json.loads(done.stdout)["block"]


def test_a_store_that_is_none_blocks(tmp_path):
    environment = named(tmp_path, RULES.format(reason="no"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hooks.db").write_text("no store at all, whatever it is called")
    assert set(asked(environment)) == {"blocked"}


def test_a_store_in_a_folder_that_others_write_blocks(tmp_path):
    environment = named(tmp_path, RULES.format(reason="no"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    assert "others may write" in asked(environment)["blocked"]


def test_a_store_that_is_full_blocks(tmp_path, monkeypatch):
    environment = named(
        tmp_path, "from toolbus import AgentComponent\n\n\nclass Rules(AgentComponent):\n    pass\n"
    )
    assert asked(environment) == {}
    connect = sqlite3.connect

    def small(*words, **options):
        made = connect(*words, **options)
        made.execute("PRAGMA max_page_count = 1")
        return made

    monkeypatch.setattr(sqlite3, "connect", small)
    results = [asked(environment, call(call_id=f"c{n}" * 3_000)) for n in range(2, 5)]
    assert all("full" in each["blocked"] for each in results)


def test_a_session_stays_with_the_rules_that_it_began_with(tmp_path):
    project(tmp_path / "work", "rules of the work")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = settings(tmp_path)
    assert asked(environment, call(tmp_path / "work")) == {"denied": "rules of the work"}
    assert asked(environment, call(elsewhere, call_id="c2")) == {"denied": "rules of the work"}
    assert asked(environment, call(elsewhere, session="s2")) == {}


def test_a_project_that_was_trusted_and_has_changed_closes(tmp_path):
    work, environment = tmp_path / "work", settings(tmp_path)
    project(work, "no")
    assert asked(environment) == {"denied": "no"}
    (work / "rules.py").write_text("# nothing any more\n")
    assert "no longer trusted" in asked(environment)["blocked"]
    assert "no longer trusted" in asked(environment, call(session="s2"))["blocked"]
    project(work, "again")
    assert asked(environment, call(call_id="c2")) == {"denied": "again"}


def test_rules_that_are_gone_close_until_their_trust_is_revoked(tmp_path):
    work, environment = tmp_path / "work", settings(tmp_path)
    project(work, "no")
    assert asked(environment) == {"denied": "no"}
    (work / "toolbus.toml").unlink()
    assert "is trusted, and missing" in asked(environment, call(call_id="c2"))["blocked"]
    assert revoke(work / "toolbus.toml")
    assert asked(environment, call(call_id="c3")) == {}


def test_a_project_that_nobody_trusted_is_not_in_force(tmp_path):
    (tmp_path / "work/toolbus.toml").write_text("no TOML either")
    assert asked(settings(tmp_path)) == {}


def test_an_event_that_concerns_nobody_loads_no_loop(tmp_path):
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from plain_dialect import PlainDialect
from toolbus.hosts.run import event_answer
from toolbus.hosts.run import event_input
from toolbus.hosts.run.requests import HookSettings
event_input.dialect = lambda _: PlainDialect()
made = event_answer.answer("plain", "call", {call()!r}, HookSettings(store=Path("nowhere.db")))
assert made.stdout == b"{{}}", made
print([name for name in ("asyncio", "pydantic", "sqlite3", "toolbus.bus") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_events_of_many_threads_are_all_kept_once(tmp_path):
    environment = named(tmp_path, RULES.format(reason="no"))
    answers = []

    def ask(number):
        answers.append(asked(environment, call(call_id=f"c{number % 10}")))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"denied": "no"}] * 20
    rows = sqlite3.connect(environment.store).execute("SELECT id FROM messages").fetchall()
    assert len(rows) == len(set(rows)) == 20


async def test_a_service_of_one_folder_says_where_else(tmp_path):
    project(tmp_path / "work", "no")
    read = event_input.read_event("plain", "call", call(tmp_path / "work"))
    async with HookService(settings(tmp_path), tmp_path) as service:
        assert await service.answer(read) == tmp_path / "work"
    async with HookService(settings(tmp_path), tmp_path / "work") as service:
        assert told(await service.answer(read)) == {"denied": "no"}


async def test_every_file_of_a_chain_is_watched(tmp_path):
    project(tmp_path / "work", "no")
    files = WatchedFiles([])
    read = event_input.read_event("plain", "call", call(tmp_path / "work"))
    async with HookService(settings(tmp_path), tmp_path / "work", files.recording) as service:
        assert told(await service.answer(read)) == {"denied": "no"}
        assert files.changed() is None
        (tmp_path / "work/rules.py").write_text("# nothing any more\n")
        assert files.changed() == str(tmp_path / "work/rules.py")


def test_what_is_only_observed_passes(tmp_path):
    assert asked(settings(tmp_path, config="/nowhere.toml"), name="other") == {}
    assert not (tmp_path / "state").exists()


def test_a_store_that_may_only_be_read_blocks(tmp_path, monkeypatch):
    environment = named(tmp_path, RULES.format(reason="no"))
    assert asked(environment) == {"denied": "no"}
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode != os.W_OK)
    assert set(asked(environment)) == {"blocked"}


@pytest.mark.parametrize("folder", ["work", "../work", "/work\0"])
def test_a_folder_that_is_no_path_is_blocked(tmp_path, folder):
    made = asked(settings(tmp_path), call(folder))
    assert "not an absolute path" in made["blocked"]


def test_observers_do_not_hold_an_answer_back(tmp_path):
    source = """
        import asyncio
        from toolbus import AgentComponent, events, on
        class Rules(AgentComponent):
            @on(events.TOOL_CALL_AFTER)
            async def watch(self, ctx):
                await asyncio.sleep(0.2)
                open("watched", "w").close()
    """
    environment = named(tmp_path, source)
    made = {"id": "c1", "name": "shell", "arguments": {}}
    data = json.dumps({"session_id": "s1", "call": made, "result": ["fine"]}).encode()
    early = []

    def tell(made):
        early.append((told(made), Path("watched").exists()))

    answer("plain", "result", data, environment, on_answer=tell)
    assert early == [({}, False)]
    assert Path("watched").exists()


async def test_an_event_whose_work_is_cancelled_is_blocked(tmp_path, monkeypatch):
    async def cancelled(*_):
        raise asyncio.CancelledError

    environment = named(tmp_path, RULES.format(reason="no"))
    read = event_input.read_event("plain", "call", call())
    async with HookService(environment) as service:
        monkeypatch.setattr(HookService, "_answer", cancelled)
        assert set(told(await service.answer(read))) == {"blocked"}


async def test_who_waits_for_an_answer_can_be_cancelled(tmp_path, monkeypatch):
    async def endless(*_):
        await asyncio.Event().wait()

    environment = named(tmp_path, RULES.format(reason="no"))
    read = event_input.read_event("plain", "call", call())
    async with HookService(environment) as service:
        monkeypatch.setattr(HookService, "_answer", endless)
        waiting = asyncio.ensure_future(service.answer(read))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("name", ["toolbus.toml", "rules.py"])
def test_a_named_configuration_that_others_may_write_blocks(tmp_path, name):
    environment = named(tmp_path, RULES.format(reason="no"))
    (tmp_path / "named" / name).chmod(0o666)
    assert "others may write" in asked(environment)["blocked"]


@pytest.mark.parametrize("is_named", [False, True])
def test_the_first_event_is_blocked_where_the_required_configuration_is_lost(tmp_path, is_named):
    file = tmp_path / "home/config/toolbus/toolbus.toml"
    file.parent.mkdir()
    file.write_text("# none\n")
    config = str(file) if is_named else None
    environment = settings(tmp_path, config=config, required=str(file))
    assert not environment.store.exists()
    assert "names no component now" in asked(environment)["blocked"]

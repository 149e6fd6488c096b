"""The scenarios of `specs/ui_replay.md`."""

import asyncio
import os
import re
from textwrap import dedent

import pytest

from toolbus import Agent, AgentComponent, AssistantMessage, Deny, ToolCall, events, guard, on
from toolbus.models.scripted import ScriptedModel
from toolbus.store.store_factory import open_store
from toolbus.ui import replay_pages
from ui_server import running_ui
from written_sessions import append, wait_until

IMPORTS = """\
import asyncio, os, sys, time
from pathlib import Path
from toolbus import AgentComponent, Ask, Deny, events, guard, on
"""
RECORDED = """\
class Recorded(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def tidy(self, ctx):
        if ctx.value.arguments["path"] == "./x":
            return ctx.value.with_arguments({"path": "x"})

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("a secret") if ctx.value.arguments["path"] == "secret" else None
"""
GUARD = """\
class Guard(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    {0}def judge(self, ctx):
        path = ctx.value.arguments["path"]
        {1}
"""

MESSAGES = """\
class Messages(AgentComponent):
    @on(events.MESSAGE_APPEND_BEFORE)
    def judge(self, ctx):
        if ctx.value.role == "user":
            return Deny("no prompts")
        if ctx.value.role == "tool":
            return ctx.value.map_text(lambda text: text[:3])
"""


class Recorded(AgentComponent):
    """The handlers of the recording; `RECORDED` is the same as a file."""

    @on(events.TOOL_CALL_BEFORE)
    def tidy(self, ctx):
        if ctx.value.arguments["path"] == "./x":
            return ctx.value.with_arguments({"path": "x"})
        return None

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("a secret") if ctx.value.arguments["path"] == "secret" else None


def read(path: str) -> str:
    return f"the text of {path}"


def record(address, *paths, ids=None):
    """Record a session with a call for each path."""
    calls = [
        ToolCall(id=name, name="read", arguments={"path": path})
        for name, path in zip(ids or [f"c-{path}" for path in paths], paths, strict=True)
    ]
    answers = [AssistantMessage(content="I look.", tool_calls=[call]) for call in calls]

    async def run():
        async with open_store(address) as store:
            model = ScriptedModel([*answers, "Done."])
            agent = Agent(
                model,
                tools=[read],
                components=[Recorded()],
                store=store,
                session_id="s/1",
                max_turns=len(paths) + 1,
            )
            async with agent:
                await agent.run("Look at the files.")

    asyncio.run(run())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def any_address(request, tmp_path):
    """Return the address of an empty store of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("database")
    return str(tmp_path / "s.db")


@pytest.fixture
def address(tmp_path):
    """Return the address of a store with a recorded session."""
    address = str(tmp_path / "s.db")
    record(address, "log", "secret", "./x")
    return address


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a target; it returns the path."""

    def write_target(body, name="guard.py"):
        file = tmp_path / name
        file.write_text(dedent(IMPORTS) + body, "utf-8")
        return str(file)

    return write_target


def start(ui, target, session="s%2F1"):
    """Start a replay as the form of its page does."""
    form = ui.get(f"/replay/{session}").text
    token = re.search('name="token" value="([0-9a-f]+)"', form)[1]
    return ui.post(f"/replay/{session}", {"target": target, "token": token})


def replayed(ui, target, query=""):
    """Return the page after a replay."""
    answer = start(ui, target)
    assert (answer.status, answer.headers["location"]) == (303, "/replay/s%2F1"), answer.text
    assert wait_until(lambda: "http-equiv" not in ui.get("/replay/s%2F1").text, 30)
    return ui.get(f"/replay/s%2F1{query}").text


def rows(page):
    """Return for each call whether it differs, and the words of both columns."""
    table = page.partition('aria-label="Calls"')[2]
    cells = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr")[2:]]
    words = [[" ".join(re.sub("<[^>]+>", " ", cell).split()) for cell in row] for row in cells]
    return [tuple(row) for row in words]


# --- both verdicts --------------------------------------------------------------------------------


def test_a_call_that_is_now_denied_differs(any_address, write):
    record(any_address, "log", "secret", "./x")
    target = write(GUARD.format("", 'return Deny("no logs") if path == "log" else None'))
    with running_ui(any_address, targets={"strict": target}) as ui:
        page = replayed(ui, "strict")

    assert rows(page) == [
        ("allowed", "Differs: denied Guard.judge: no logs"),
        ("denied Recorded.judge: a secret", "Differs: allowed"),
        ("changed", "Differs: allowed"),
    ]
    assert "3 calls, 3 with another verdict." in page
    counts = re.findall(
        r'">(\w+)</span>\s*</th><td class="number">(\d)</td><td class="number">(\d)', page
    )
    assert counts == [("allowed", "1", "2"), ("changed", "1", "0"), ("denied", "1", "1")]


def test_the_same_handlers_differ_nowhere(address, write):
    with running_ui(address, targets={"same": write(RECORDED)}) as ui:
        page = replayed(ui, "same")

    assert [row[1].split()[0] for row in rows(page)] == ["allowed", "denied", "changed"]
    assert "3 calls, 0 with another verdict." in page
    assert "<del>- ./x</del><ins>+ x</ins>" in page


def test_effects_on_messages_stand_between_calls(tmp_path, write):
    address = str(tmp_path / "s.db")
    record(address, "a")
    target = write(MESSAGES)
    with running_ui(address, targets={"messages": target}) as ui:
        page = replayed(ui, "messages")

    assert rows(page) == [
        ("", "denied Messages.judge: no prompts"),
        ("allowed", "allowed Its result: changed by Messages.judge"),
    ]
    assert "user message" in page
    assert "1 call, 0 with another verdict." in page


def test_a_reused_call_id_is_no_confusion(tmp_path, write):
    address = str(tmp_path / "s.db")
    record(address, "a", "b", ids=["c-1", "c-1"])
    target = write(GUARD.format("", 'return Deny("no") if path == "b" else None'))
    with running_ui(address, targets={"strict": target}) as ui:
        page = replayed(ui, "strict")

    assert rows(page) == [("allowed", "allowed"), ("allowed", "Differs: denied Guard.judge: no")]


def test_hidden_arguments_are_not_compared(tmp_path, write):
    address = str(tmp_path / "s.db")
    record(address, "[api_key-abcdefghijklmnop]")
    target = write(GUARD.format("", 'return Deny("no")'))
    with running_ui(address, targets={"strict": target}) as ui:
        page = replayed(ui, "strict")

    assert "Not to be compared: `path` was hidden in the recording" in page
    assert [row[1].split()[0] for row in rows(page)] == ["unjudged"]
    assert "1 call, 0 with another verdict." in page


# --- the target -----------------------------------------------------------------------------------


def test_a_path_in_the_form_is_refused(address, write, tmp_path):
    target = write(GUARD.format("", "return None"))
    other = write(f'Path("{tmp_path}/ran").touch()', "other.py")
    with running_ui(address, targets={"strict": target}) as ui:
        for name in (other, target, "other", ""):
            assert start(ui, name).status == 400

    assert not (tmp_path / "ran").exists()


def test_a_form_without_its_token_is_refused(address, write):
    append(address, AssistantMessage(content="hello"), session="other")
    target = write(GUARD.format("", "return None"))
    with running_ui(address, targets={"strict": target}) as ui:
        other = re.search('"token" value="([0-9a-f]+)"', ui.get("/replay/other").text)[1]
        fields = [{"target": "strict"}, {"target": "strict", "token": other}]

        refused = [ui.post("/replay/s%2F1", each).status for each in fields]
        link = ui.get("/replay/s%2F1?target=strict")

        assert refused == [403, 403]
        assert link.status == 200
        assert "Past strict" not in ui.get("/replay/s%2F1").text
        assert "http-equiv" not in ui.get("/replay/s%2F1").text


def test_the_active_configuration_is_a_target(address, tmp_path, monkeypatch):
    folder = tmp_path / "config/toolbus"
    folder.mkdir(parents=True)
    policy = 'default = "allow"\n[[rule]]\nname = "none"\ntools = ["read"]\nverdict = "deny"\n'
    (folder / "policy.toml").write_text(policy, "utf-8")
    component = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
    (folder / "toolbus.toml").write_text(component, "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with running_ui(address, targets={"named.py": "named.py"}) as ui:
        page = replayed(ui, replay_pages.CONFIGURATION)

    assert re.findall(r"<option[^>]*>([^<]+)", page) == ["named.py", "your configuration"]
    verdicts = [row[1].removeprefix("Differs: ").split()[0] for row in rows(page)]
    assert verdicts == ["denied", "denied", "denied"]


# --- what a target may not do ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('raise ValueError("at <b>import</b>")', "ValueError: at &lt;b&gt;import&lt;/b&gt;"),
        (GUARD.format("", "sys.exit(3)"), "SystemExit: 3"),
        (GUARD.format("", "os._exit(4)"), "a handler ended the process: exit code 4"),
        (GUARD.format("", "os.kill(os.getpid(), 9)"), "a handler ended the process: exit code -9"),
        ("x = (", "SyntaxError"),
        ("", "has no agent, bus or component"),
    ],
    ids=["raise", "exit", "end", "kill", "syntax", "nothing"],
)
def test_a_crash_is_told(address, write, body, words):
    with running_ui(address, targets={"bad": write(body)}) as ui:
        page = replayed(ui, "bad")

        assert words in page
        assert "Traceback" not in page
        assert ui.get("/").status == 200


def test_a_target_acts_for_no_person(address, write, tmp_path):
    facts = "f\"{os.getsid(0) == os.getpid()} {os.environ.get('TOOLBUS_JUDGED')}\""
    target = write(GUARD.format("", f'Path("{tmp_path}/facts").write_text({facts})'))
    with running_ui(address, targets={"curious": target}) as ui:
        replayed(ui, "curious")

    assert (tmp_path / "facts").read_text() == "True 1"


@pytest.mark.full
@pytest.mark.parametrize(
    "hang",
    [
        ("", "a handler did not return within 1 s"),
        pytest.param(
            (
                "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); ",
                "a handler ended the process: exit code -9",
            ),
            marks=pytest.mark.full,
        ),
    ],
    ids=["asleep", "without alarm"],
)
def test_a_target_that_hangs_is_ended(address, write, tmp_path, monkeypatch, hang):
    before, words = hang
    monkeypatch.setattr(replay_pages, "REPLAY_SECONDS", 1.0)
    body = f'{before}Path("{tmp_path}/pid").write_text(str(os.getpid())); time.sleep(60)'
    target = write(GUARD.format("", body))
    with running_ui(address, targets={"hangs": target}) as ui:
        page = replayed(ui, "hangs")

        assert words in page
        pid = int((tmp_path / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert start(ui, "hangs").status == 303


@pytest.mark.full
def test_a_slow_replay_is_cut(address, write, monkeypatch):
    monkeypatch.setattr(replay_pages, "REPLAY_SECONDS", 1.0)
    target = write(GUARD.format("async ", "await asyncio.sleep(0.7)"))
    with running_ui(address, targets={"slow": target}) as ui:
        page = replayed(ui, "slow")

    assert "The end of the session was not replayed: it took more than 1 s." in page
    assert 1 <= len(rows(page)) < 3


@pytest.mark.full
def test_one_replay_runs_at_a_time(address, write):
    target = write(GUARD.format("async ", "await asyncio.sleep(1)"))
    with running_ui(address, targets={"slow": target}) as ui:
        assert start(ui, "slow").status == 303
        second = start(ui, "slow")
        page = ui.get("/replay/s%2F1").text

        assert (second.status, "another replay goes on" in second.text) == (409, True)
        assert re.search(r"Replaying past slow: \d+ %", page)
        assert wait_until(lambda: "http-equiv" not in ui.get("/replay/s%2F1").text, 20)
        assert start(ui, "slow").status == 303


@pytest.mark.full
def test_a_long_session_is_in_parts(tmp_path, write):
    address = str(tmp_path / "s.db")
    record(address, *[f"{number}" for number in range(450)])
    target = write(GUARD.format("", 'return Deny("a third") if int(path) % 3 == 0 else None'))
    with running_ui(address, targets={"thirds": target}) as ui:
        page = replayed(ui, "thirds")
        last = ui.get("/replay/s%2F1?after=400").text
        short = ui.get("/replay/s%2F1?differing").text

    assert (len(rows(page)), 'href="?after=200"' in page) == (200, True)
    assert (len(rows(last)), "Further calls" in last) == (50, False)
    assert {row[1] for row in rows(short)} == {"Differs: denied Guard.judge: a third"}
    assert len(rows(short)) == 150


def test_texts_of_targets_are_text(address, write):
    body = 'return Deny("<script>alert(1)</script>\\u202e")'
    with running_ui(address, targets={"<b>": write(GUARD.format("", body))}) as ui:
        page = replayed(ui, "<b>")

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "<b>" not in page

"""The scenarios of `specs/session_diff.md`."""

import asyncio
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browsers import axe_violations, every_look, public_copy
from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    events,
    guard,
    tool,
)
from toolbus.cli.command_line import main
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from ui_server import running_ui


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def diff(capsys):
    def run(*words):
        code = main(["diff", *words])
        return code, capsys.readouterr()

    return run


def call_of(number, name, arguments, result="done"):
    """Return the messages of a call and its answer."""
    call = ToolCall(id=f"c{number}", name=name, arguments=arguments)
    response = result if isinstance(result, ToolResponse) else ToolResponse(result)
    return [
        AssistantMessage(tool_calls=[call]),
        ToolMessage(tool_call_id=call.id, tool_name=name, tool_response=response),
    ]


def calls_of(*calls, prompt="go"):
    """Return the messages of a session that makes *calls*."""
    steps = [message for number, call in enumerate(calls) for message in call_of(number, *call)]
    return [UserMessage(content=prompt), *steps]


def store(path="agent.db", **sessions):
    """Write *sessions*, lists of messages, into the store at *path*."""

    async def write():
        async with SqliteStore(path) as opened:
            for name, messages in sessions.items():
                await asyncio.gather(
                    *[opened.append(name, AppendRequest(message=each)) for each in messages]
                )

    asyncio.run(write())


def signs(report):
    """Return the lines of *report* about steps, without its head."""
    lines = report.out.splitlines()[3:]
    return [line for line in lines if line[:2] in {"- ", "+ ", "~ "}]


def test_sessions_with_equal_steps_do_not_differ(diff):
    calls = [("read", {"path": "a"}), ("read", {"path": "b"})]
    store(left=calls_of(*calls), right=calls_of(*calls))

    code, report = diff("agent.db", "left", "right")

    assert (code, signs(report)) == (0, [])
    assert "no step differs" in report.out


def test_a_call_of_one_session_stands_alone(diff):
    calls = [("read", {"path": name}) for name in "abc"]
    store(whole=calls_of(*calls), less=calls_of(calls[0], calls[2]))

    codes = []
    for sessions, sign in ((("whole", "less"), "-"), (("less", "whole"), "+")):
        code, report = diff("agent.db", *sessions)
        codes.append(code)
        (line,) = signs(report)
        assert line.startswith(f'{sign} call read {{"path":"b"}}')
        assert "2 equal steps" in report.out

    assert codes == [1, 1]


def test_arguments_differ_field_by_field(diff):
    old, new = ({"to": {"host": host, "port": 22}, "force": True} for host in ("alpha", "beta"))
    store(left=calls_of(("push", old)), right=calls_of(("push", new)))

    _, report = diff("agent.db", "left", "right")

    (line,) = signs(report)
    assert line.startswith("~ call push arguments")
    below = report.out.partition(line)[2]
    assert below.split()[:4] == ["arguments.to.host", "alpha", "│", "beta"]
    assert "port" not in below
    assert "force" not in below


@tool
def delete(path: str) -> str:
    return f"deleted {path}"


class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def keep_files(self, ctx):
        return Deny("files are kept")


async def record(session, *components):
    call = AssistantMessage(tool_calls=[ToolCall(name="delete", arguments={"path": "a"})])
    async with SqliteStore("agent.db") as opened:
        options = {"tools": [delete], "components": components, "session_id": session}
        async with Agent(ScriptedModel([call, "done"]), store=opened, **options) as agent:
            await agent.run("go")


def test_a_verdict_differs_with_its_reason(diff):
    asyncio.run(record("free"))
    asyncio.run(record("guarded", Rules()))

    _, report = diff("agent.db", "free", "guarded")

    line, *_ = signs(report)
    assert line.startswith("~ call delete")
    assert "verdict" in line
    for text in ("status", "denied", "files are kept", "keep_files"):
        assert text in report.out.partition(line)[2]


def test_a_result_differs_in_its_lines(diff):
    lines = [f"line {number}" for number in range(200)]
    changed = [*lines[:150], "another", *lines[151:]]
    call = ("read", {"path": "a"})
    store(left=calls_of((*call, "\n".join(lines))), right=calls_of((*call, "\n".join(changed))))

    _, report = diff("agent.db", "left", "right")

    (line,) = signs(report)
    below = report.out.partition(line)[2]
    assert line.startswith("~ call read result")
    assert "line 150" in below
    assert "another" in below
    assert "line 149" not in below


def test_prompts_and_answers_are_compared(diff):
    texts = {"left": ("tidy up", "it is tidy"), "right": ("clean up", "it is clean")}
    store(
        **{
            name: [UserMessage(content=prompt), AssistantMessage(content=answer)]
            for name, (prompt, answer) in texts.items()
        }
    )

    _, report = diff("agent.db", "left", "right")

    assert [line.split()[1] for line in signs(report)] == ["user", "assistant"]
    assert all(text in report.out for pair in texts.values() for text in pair)


def test_a_repeated_call_is_aligned_in_order(diff):
    poll, other = ("poll", {}), ("read", {"path": "a"})
    store(few=calls_of(poll, other, poll), many=calls_of(poll, poll, other, poll, poll))

    _, report = diff("agent.db", "few", "many")

    assert [line[:11] for line in signs(report)] == ["+ call poll"] * 2


def test_placeholders_of_two_sessions_are_equal(diff):
    shown = {"left": "[github-pat-abcdefghijklmnop]", "right": "[github-pat-qrstuvwxyzabcdef]"}
    store(
        **{
            name: calls_of(("push", {"token": each}, f"pushed with {each}"))
            for name, each in shown.items()
        }
    )

    code, report = diff("agent.db", "left", "right")

    assert (code, signs(report)) == (0, [])


def test_tokens_and_calls_are_counted(diff):
    failed = ToolResponse("no such file", is_error=True)
    answer = AssistantMessage(content="done", usage={"input_tokens": 1200, "output_tokens": 34})
    store(
        left=[*calls_of(("read", {}), ("read", {})), answer],
        right=calls_of(("read", {}), ("read", {}, failed)),
    )

    _, report = diff("agent.db", "left", "right")

    table = [" ".join(line.split()) for line in report.out.splitlines()]
    assert {
        "calls 2 2",
        "calls ok 2 1",
        "calls error 0 1",
        "tokens in 1,200 0",
        "tokens out 34 0",
    } <= {*table}


def test_a_long_session_is_compared_whole(diff):
    calls = [("read", {"path": f"file {number}"}) for number in range(300)]
    ends = [("read", {"path": f"another {number}"}) for number in range(2)]
    store(left=calls_of(*calls), right=calls_of(ends[0], *calls[1:-1], ends[1]))

    _, report = diff("agent.db", "left", "right")

    assert [line[:11] for line in signs(report)] == ["~ call read"] * 2
    assert "298 equal steps" in report.out


def test_the_beginning_of_an_id_is_enough(diff):
    store(alpha=calls_of(), beta=calls_of())

    code, report = diff("agent.db", "al", "be")

    assert code == 0
    assert report.out.splitlines()[:2] == ["- session alpha", "+ session beta"]


def test_sessions_of_two_stores_are_compared(diff):
    store("old.db", s=calls_of(prompt="the old prompt"))
    store("new.db", s=calls_of(prompt="the new prompt"))

    code, report = diff("old.db", "s", "s", "--other", "new.db")

    assert code == 1
    assert "the old prompt" in report.out
    assert "the new prompt" in report.out


def test_sessions_of_coding_agents_are_compared(diff, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "rules.toml").write_text(
        '[[component]]\nuse = "policy"\nsettings = { default = "deny" }\n'
    )
    hook = [sys.executable, "-m", "toolbus", "hook", "claude-code", "PreToolUse"]
    for session, line in (("first", "git push"), ("second", "git pull")):
        facts = {"session_id": session, "cwd": str(tmp_path), "tool_name": "Bash"}
        event = json.dumps({**facts, "tool_use_id": "t1", "tool_input": {"command": line}})
        subprocess.run([*hook, "--config", "rules.toml"], input=event, text=True, check=True)

    code, report = diff("claude-code:first", "claude-code:second")

    assert code == 1
    assert "git push" in report.out
    assert "git pull" in report.out


def test_a_session_or_store_is_missing(diff):
    store(alpha=calls_of(), beta=calls_of())

    unknown, report = diff("agent.db", "alpha", "betta")
    alone, asked = diff("agent.db", "alpha")

    assert (unknown, alone) == (2, 2)
    assert "beta" in report.err
    assert "two sessions" in asked.err


def test_a_program_reads_one_document(diff):
    store(left=calls_of(("read", {"path": "a"})), right=calls_of(("read", {"path": "b"})))

    code, report = diff("agent.db", "left", "right", "--json")

    document = json.loads(report.out)
    assert code == 1
    assert [document[side]["id"] for side in ("first", "second")] == ["left", "right"]
    assert document["counts"] == {"same": 1, "changed": 1}
    pair = document["pairs"][1]
    assert pair["aspects"] == ["arguments"]
    assert pair["differences"] == [{"path": "arguments.path", "before": "a", "after": "b"}]
    assert pair["first"]["facts"]["status"] == "ok"


def test_control_characters_stay_off_the_terminal(diff):
    evil = "\x1b]0;title\x07\x9b31m\u202e"
    store(
        left=calls_of((f"read{evil}", {evil: evil}, f"a{evil}"), prompt=evil),
        right=calls_of((f"read{evil}", {evil: f"b{evil}"}, f"b{evil}"), (evil, {})),
    )

    _, report = diff("agent.db", "left", "right")

    assert all(char.isprintable() or char == "\n" for char in report.out)


class Elements(HTMLParser):
    """The elements of a page, and its texts."""

    def __init__(self, response):
        assert response.status == 200, response.text
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(response.text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, [name for name, _ in attributes]))
        self.links += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += data


def test_two_sessions_stand_on_a_page():
    same, other = ("read", {"path": "same"}), ("stop", {"now": "tomorrow"})
    store(
        left=calls_of(same, ("read", {"path": "oranges"}), other),
        right=calls_of(same, ("read", {"path": "lemons"})),
    )

    with running_ui("agent.db") as ui:
        form = ui.get("/diff")
        page = Elements(ui.get("/diff?left=le&right=ri"))

    assert re.findall('name="(left|right)"', form.text) == ["left", "right"]
    for text in ("oranges", "lemons", "arguments.path", "tomorrow", "calls ok", "2 equal steps"):
        assert text in page.text
    assert {"/sessions/left", "/sessions/right", "/calls/left/c1", "/calls/right/c1"} <= {
        *page.links
    }


def test_a_long_comparison_has_several_pages():
    store(
        **{
            side: calls_of(*[("read", {"path": f"{side} {number:03}"}) for number in range(100)])
            for side in ("left", "right")
        }
    )

    pages, links = [], ["/diff?left=left&right=right"]
    with running_ui("agent.db") as ui:
        while links:
            pages.append(Elements(ui.get(links[0])))
            links = [link for link in pages[-1].links if link.startswith("/diff?")]

    assert len(pages) > 2
    assert max(len(page.tags) for page in pages) < 2_000
    shown = re.findall(r"(?:left|right) \d{3}", "".join(page.text for page in pages))
    assert len(shown) == len({*shown}) == 200


def test_unknown_sessions_are_a_plain_answer():
    store(alpha=calls_of(), beta=calls_of())

    with running_ui("agent.db") as ui:
        answer = ui.get("/diff?left=alpha&right=betta%3Cimg%3E")

    assert answer.status == 404
    assert "beta" in answer.text
    assert "<img" not in answer.text


def test_hostile_texts_stay_text_beside_each_other():
    evil = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\"'"
    harmless = re.sub("[^a-z]", "x", evil)
    for words, name in ((harmless, "good"), (evil, "bad")):
        for side in ("left", "right"):
            calls = [(words, {words: f"{words} {side}"}, f"{words} {side}"), (f"{words}{side}", {})]
            store(**{f"{name} {side} {words}": calls_of(*calls, prompt=f"{words} {side}")})

    with running_ui("agent.db") as ui:
        good, bad = (
            Elements(ui.get(f"/diff?left={name}%20left&right={name}%20right"))
            for name in ("good", "bad")
        )

    assert good.tags == bad.tags
    assert evil in bad.text


@pytest.mark.full
@every_look
def test_a_comparison_suits_every_window(look, open_page, screenshot):
    long, failed = "a long line of text " * 200, ToolResponse("no such file", is_error=True)
    calls = [("read", {"path": "a"}), ("read", {"path": "b"}, failed), ("write", {"text": long})]
    sessions = {"left": calls_of(*calls), "right": calls_of(calls[0], ("read", {"path": long}))}
    words = ["export", "--html", "agent.db", "left", "right", "-o", "two.html"]
    # The driver of the browser has an event loop in this thread.
    with ThreadPoolExecutor() as threads:
        threads.submit(store, **sessions).result()
        assert threads.submit(main, words).result() == 0
    file, requests = public_copy(Path("two.html")), []

    with running_ui("agent.db") as ui:
        page = open_page(look)
        name, _, value = ui.cookie.partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
        for address in (f"{ui.url}/diff?left=left&right=right", file):
            page.goto(address)
            screenshot(page, f"diff-{'file' if address == file else 'page'}", look)
            assert axe_violations(page) == []
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
            page.on("request", lambda request: requests.append(request.url))

    assert requests == [file]

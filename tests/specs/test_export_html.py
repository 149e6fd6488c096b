"""The scenarios of `specs/export_html.md`."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    events,
    guard,
    on,
    tool,
)
from toolbus.cli.command_line import main
from toolbus.cli.output.redacted_views import ViewRedaction
from toolbus.messages.records import ReasoningPart
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
OTHER = "ghp_" + "zY2wV4uT6sR8qP0oN2mL4kJ6iH8gF0eD2cB4"


class Markup(HTMLParser):
    """The elements of a page with their attributes, and its texts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def export(capsys):
    """Return a function that exports sessions of `agent.db` and returns the page."""

    def run(*words, file="page.html"):
        code = main(["export", "--html", "agent.db", *words, "-o", file, "--force"])
        assert code == 0, capsys.readouterr().err
        return Path(file).read_text()

    return run


def store(**sessions):
    """Write *sessions*, lists of messages, into the store."""

    async def write():
        async with SqliteStore("agent.db") as opened:
            for name, messages in sessions.items():
                for message in messages:
                    await opened.append(name, AppendRequest(message=message))

    asyncio.run(write())


def call_of(name, arguments, result="done", call_id="c1"):
    response = result if isinstance(result, ToolResponse) else ToolResponse(result)
    return [
        AssistantMessage(tool_calls=[ToolCall(id=call_id, name=name, arguments=arguments)]),
        ToolMessage(tool_call_id=call_id, tool_name=name, tool_response=response),
    ]


def record(session, words, *, originals=True):
    """Run an agent whose prompt, calls, results, changes and denials have *words* in them."""

    @tool(name="read")
    def read(path: str, more: dict) -> str:
        return f"the text of {path}: {words}"

    class Rules(AgentComponent):
        @on(events.TOOL_CALL_BEFORE)
        def lower_paths(self, ctx):
            path = ctx.value.arguments.get("path", "")
            return (
                ctx.value.merge_arguments({"path": path.lower()}) if path != path.lower() else None
            )

        @guard(events.TOOL_CALL_BEFORE)
        def keep_private(self, ctx):
            private = "private" in ctx.value.arguments.get("path", "")
            return Deny(f"it is private: {words}", detail=f"detail {words}") if private else None

        @on(events.MESSAGE_PERSIST_BEFORE, roles="user")
        def shorten(self, ctx):
            return ctx.value.with_text(ctx.value.text[:5])

    async def run():
        calls = [
            ToolCall(
                id=f"{words} {path}",
                name="read",
                arguments={"path": path, "more": {words: [words]}},
            )
            for path in ("A.txt", "private.txt")
        ]
        asked = AssistantMessage(
            id=f"id {words}",
            content=f"I read {words}",
            reasoning=(ReasoningPart(f"I think {words}"),),
            tool_calls=calls,
            usage={"input_tokens": 1200, "output_tokens": 30},
        )
        answer = AssistantMessage(id=f"end {words}", content=f"all of {words}")
        async with SqliteStore("agent.db") as opened:
            options = {"tools": [read], "components": [Rules()], "keep_originals": originals}
            model = ScriptedModel([asked, answer])
            async with Agent(model, store=opened, session_id=session, **options) as agent:
                await agent.run(f"go on with {words}")

    asyncio.run(run())


def test_a_session_is_one_file(export):
    record("alpha", "apples")

    page = Markup(export("alpha"))

    for text in ("Session alpha", "I read apples", "the text of a.txt", "A.txt", "denied"):
        assert text in page.text
    for text in ("it is private: apples", "keep_private", "lower_paths", "1,200", "all of apples"):
        assert text in page.text


def test_two_sessions_stand_side_by_side(export):
    same = call_of("read", {"path": "same"}, call_id="c0")
    store(
        left=[
            *same,
            *call_of("read", {"path": "oranges"}),
            *call_of("stop", {"now": "tomorrow"}, f"{'words ' * 1_000} and the end"),
        ],
        right=[*same, *call_of("read", {"path": "lemons"})],
    )

    page = Markup(export("left", "right"))

    for text in (
        "left",
        "right",
        "oranges",
        "lemons",
        "arguments.path",
        "stop",
        "tomorrow",
        "and the end",
    ):
        assert text in page.text
    assert "1 equal step" in page.text
    rows = re.findall(r"calls\s*(\d)\s*(\d)", page.text)
    assert rows == [("3", "2")]
    assert "same" not in page.text.partition("Steps")[2]


def pages(export):
    record("alpha", "apples")
    record("beta", "berries")
    return [export("alpha"), export("alpha", "beta", file="two.html")]


def test_the_file_makes_no_request(export):
    for html in pages(export):
        page = Markup(html)

        for tag, attributes in page.elements:
            for name in ("src", "href", "action", "srcset", "data", "poster", "background", "ping"):
                assert attributes.get(name, "#").startswith("#"), (tag, attributes)
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert {tag for tag, _ in page.elements}.isdisjoint(
            {"form", "input", "button", "link", "iframe", "object", "embed", "base", "img"}
        )
        style_and_script = "".join(re.findall(r"<(?:style|script)[^>]*>(.*?)</", html, re.DOTALL))
        assert not re.search(r"https?:|url\(|@import", style_and_script)
        (policy,) = [meta for meta in page.all("meta") if "http-equiv" in meta]
        assert policy["http-equiv"] == "Content-Security-Policy"
        assert policy["content"].startswith("default-src 'none'; ")


def test_the_policy_permits_the_own_script_alone(export):
    for html in pages(export):
        (policy,) = [each for each in Markup(html).all("meta") if "http-equiv" in each]
        sources = dict(part.split(" ", 1) for part in policy["content"].split("; "))
        for tag in ("style", "script"):
            (body,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", html, re.DOTALL)
            digest = b64encode(sha256(body.encode()).digest()).decode()
            assert sources.pop(f"{tag}-src") == f"'sha256-{digest}'"
        assert set(sources.values()) == {"'none'"}


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)></pre></style>"
    "<!--{{ 7*7 }}{% raw %}{# &lt;b&gt; \"'` javascript:alert(1)"
)
CONTROLS = "\x1b[31m\u202eevil\u2066"


def test_hostile_texts_stay_text(export):
    harmless = re.sub(r"[^a-z]", "x", HOSTILE)
    for words, name in ((harmless, "harmless"), (HOSTILE, "hostile"), (CONTROLS, "controls")):
        record(name, words)
        store(**{f"{name} {words}": [*call_of(words, {words: words}, words), *call_of("b", {})]})

    def shape(*sessions):
        return [(tag, sorted(fields)) for tag, fields in Markup(export(*sessions)).elements]

    pairs = [("harmless",), ("hostile",)], [("harmless x",), ("hostile <",)]
    pairs += ([("harmless", "harmless x"), ("hostile", "hostile <")],)
    for good, bad in pairs:
        assert shape(*good) == shape(*bad)
    assert HOSTILE in Markup(export("hostile")).text
    shown = export("controls") + export("controls", "controls \x1b")
    assert "evil" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


def test_credentials_are_hidden_wherever_they_stand(export):
    record("alpha", TOKEN)
    halves = ToolResponse((TextPart(TOKEN[:20]), TextPart(TOKEN[20:])))
    structured = ToolResponse(structured={TOKEN: [TOKEN, {"token": OTHER}]})
    store(
        **{
            f"beta {TOKEN}": [
                UserMessage(id=TOKEN, content=(TextPart(TOKEN[:20]), TextPart(TOKEN[20:]))),
                *call_of(f"tool {TOKEN}", {TOKEN: TOKEN}, halves, f"c {TOKEN}"),
                *call_of("b", {"url": f"https://x:{TOKEN}@example.com"}, structured, "c2"),
            ]
        }
    )

    files = export("alpha"), export("beta"), export("alpha", "beta")

    for html in files:
        assert "[github-pat-" in html
        for secret in (TOKEN, TOKEN[:20], TOKEN[20:], OTHER):
            assert secret not in html


def test_personal_data_are_hidden(export):
    texts = ["jane.doe@example.com", "4111 1111 1111 1111", "/home/jane/notes.txt"]
    record("alpha", " and ".join(texts))
    store(beta=call_of("pay", {"card": 4111111111111111, "mail": texts[0]}, texts[2]))

    for html in (export("alpha"), export("beta"), export("alpha", "beta")):
        assert not re.search("jane|4111", html)
        assert "~/notes.txt" in html


def test_a_password_is_hidden_in_all_texts(export):
    password = "Tr0ub4dor-and-3"
    calls = call_of("login", {"user": "u", "password": password}, f"welcome, {password}")
    store(alpha=[UserMessage(content=f"log in with {password}"), *calls])

    assert password not in export("alpha")

    store(**{f"by {password}": calls})
    assert main(["export", "--html", "agent.db", "by"]) == 0
    assert [file.name for file in Path().glob("*.html") if password in file.name] == []


def test_a_value_has_one_placeholder(export):
    record("alpha", TOKEN)
    record("beta", f"again {TOKEN}")

    names = [
        set(re.findall(r"\[github-pat-[a-z2-7]{16}\]", export("alpha", "beta"))) for _ in range(2)
    ]

    assert [len(each) for each in names] == [1, 1]
    assert names[0] != names[1]


def test_hidden_values_are_counted(capsys):
    store(alpha=[UserMessage(content=f"{TOKEN} {OTHER} {TOKEN} jane.doe@example.com")])

    assert main(["export", "--html", "agent.db", "alpha"]) == 0

    counts = "hidden values: 2 github-pat, 1 email"
    assert capsys.readouterr().err.strip().endswith(f"alpha.html; {counts}")
    above, _, _ = Markup(Path("alpha.html").read_text()).text.rpartition("Session alpha")
    assert counts in above


def test_a_text_too_long_is_withheld(export):
    long = "a line of text\n" * 600_000
    store(alpha=[UserMessage(content=text) for text in ("before", long, f"after {TOKEN}")])

    page = Markup(export("alpha"))

    assert "withheld because it could not be scanned" in page.text
    assert "it is too large: more than 8,000,000 characters" in page.text
    assert "hidden values: 1 github-pat, 1 withheld" in page.text
    assert {"before", "a line of text"} & {*page.text.split("\n")} == {"before"}
    assert TOKEN not in page.text


def test_the_file_as_stored_says_so(export, capsys):
    record("alpha", TOKEN)

    html = export("alpha", "--as-stored")

    assert TOKEN in html
    text = Markup(html).text
    assert "Nothing was hidden for this file" in text
    assert text.index("Nothing was hidden") < text.index("Session alpha")
    assert "as stored" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("name", ["re2", "phonenumbers"])
def test_without_the_extra_nothing_is_exported(name, environment):
    store(alpha=[UserMessage(content="hello")])
    program = (
        f"import sys; sys.modules[{name!r}] = None\nfrom toolbus.cli.command_line import main\n"
    )

    def run(*words):
        code = f"{program}sys.exit(main(['export', '--html', 'agent.db', 'alpha', *{words!r}]))"
        return subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = run()
    files = list(Path().glob("*.html"))
    stored = run("--as-stored")

    extra = {"re2": "redact", "phonenumbers": "personal"}[name]
    assert (refused.returncode, files) == (2, [])
    assert f".[{extra}]" in refused.stderr
    assert "--as-stored" in refused.stderr
    assert stored.returncode == 0, stored.stderr


def test_a_failed_redaction_leaves_no_file(monkeypatch, capsys):
    store(alpha=[UserMessage(content="hello")])
    Path("page.html").write_text("mine")

    def fail(*_):
        raise RuntimeError(TOKEN)

    monkeypatch.setattr(ViewRedaction, "redacted", fail)

    code = main(["export", "--html", "agent.db", "alpha", "-o", "page.html", "--force"])

    printed = capsys.readouterr()
    assert code == 1
    assert Path("page.html").read_text() == "mine"
    assert [path.name for path in Path().iterdir() if "html" in path.name] == ["page.html"]
    assert TOKEN not in printed.out + printed.err
    assert "redaction failed" in printed.err


def test_a_page_is_its_owner_s():
    store(**{"claude-code:a/b": [UserMessage(content="hello")]})
    before = os.umask(0)
    try:
        code = main(["export", "--html", "agent.db", "claude-code:a/b"])
    finally:
        os.umask(before)

    (file,) = Path().glob("*.html")
    assert code == 0
    assert file.name == "claude-code-a-b.html"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_page_replaces_no_file(capsys):
    store(alpha=[UserMessage(content="hello")])
    Path("page.html").write_text("mine")
    words = ["export", "--html", "agent.db", "alpha", "-o", "page.html"]

    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("page.html").read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert "hello" in Path("page.html").read_text()


def test_a_page_needs_one_or_two_sessions(capsys):
    store(alpha=[UserMessage(content="hello")])

    def refused(*words):
        assert main(["export", *words]) == 2
        return capsys.readouterr().err

    for words in ((), ("alpha", "alpha", "alpha")):
        reason = f"one session or two, not {len(words)}; `toolbus sessions STORE` lists them"
        assert reason in refused("--html", "agent.db", *words)
    assert "give `-o FILE`" in refused("agent.db", "--html", "alpha", "-o", "-")
    assert "alpha" in refused("--html", "agent.db", "alpah")
    assert "--as-stored needs --html" in refused("agent.db", "alpha", "--as-stored")
    assert list(Path().glob("*.html")) == []


def test_a_damaged_row_has_its_place(export):
    store(alpha=[UserMessage(content=text) for text in ("first", "second", "third")])
    with closing(sqlite3.connect("agent.db")) as connection:
        connection.execute("UPDATE messages SET body = '{' WHERE seq = 2")
        connection.commit()

    page = Markup(export("alpha"))

    assert "message 2 is damaged" in page.text
    assert "first" in page.text
    assert "third" in page.text

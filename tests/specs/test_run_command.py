"""The scenarios of `specs/run_command.md`."""

import asyncio
import json
import os
import pty
import pwd
import random
import re
import signal
import string
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.servers import wire_shapes as shapes
from tests.servers.fake_provider import FakeProvider, Reply
from tests.servers.terminal import Terminal

from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.approvals import answer
from toolbus.approvals.records import questions_of
from toolbus.messages import encode
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

KEY = "sk-" + "k3y" * 9
READY = "\x1b[0m>"  # The sign before what is typed.
LISTED = Path(__file__).parents[1] / "servers/listed.py"
QUESTION = "approve? [y, n, n and a reason, ? for more] "
NEXT = "Enter shows the next page [n, n and a reason, ? for more] "
HANDLERS = """
import logging
import sys
from msgspec.structs import replace
from toolbus import AgentComponent, Deny, events, guard, on

class Careful(AgentComponent):
    @on(events.TOOL_CALL_BEFORE, tools=["shell"])
    def soften(self, ctx):
        print("printed by a handler")
        command = "echo soft; " + ctx.value.arguments["command"]
        return ctx.value.merge_arguments({"command": command})

class Judging(AgentComponent):
    @guard(events.MESSAGE_APPEND_BEFORE, roles="assistant")
    def judge(self, ctx):
        return Deny("no such word") if "bad" in ctx.value.text else None

class Changing(AgentComponent):
    @on(events.MESSAGE_APPEND_BEFORE, roles="assistant")
    def change(self, ctx):
        return replace(ctx.value, content=ctx.value.text.replace("odd", "even"))

class Warning(AgentComponent):
    @on(events.MODEL_CALL_DELTA)
    def warn(self, ctx):
        if ctx.value.text in ("gin,", "s do"):
            logging.getLogger("x").warning("a piece came")

class Forbidding(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE, tools=["shell"])
    def forbid(self, ctx):
        return Deny("no commands here")
"""


def calling(name, _id="c1", **arguments):
    return AssistantMessage(tool_calls=[ToolCall(id=_id, name=name, arguments=arguments)])


@pytest.fixture
def here(tmp_path):
    """Return the folder in which commands run, with a file of handlers."""
    folder = tmp_path / "here"
    folder.mkdir(exist_ok=True)
    (folder / "handlers.py").write_text(HANDLERS)
    return folder


@pytest.fixture
def tape(here):
    """Return a function that writes answers to a file, and returns the option for that model."""

    def write(*answers, name="tape.jsonl"):
        messages = [AssistantMessage(content=a) if isinstance(a, str) else a for a in answers]
        (here / name).write_bytes(b"\n".join(map(encode, messages)))
        return f"--model=replay:{name}"

    return write


@pytest.fixture
def config(here):
    """Return a function that writes a configuration of one component of `handlers.py`."""

    def write(component, name="toolbus.toml"):
        (here / name).write_text(f'[[component]]\nuse = "./handlers.py:{component}"\n')
        return f"--config={name}"

    return write


@pytest.fixture
def terminal(here, environment):
    """Return a function that runs `toolbus run` on a terminal."""

    def run(*arguments, columns=80, rows=24, **variables):
        plain = environment | {"NO_COLOR": "1"} | variables
        return Terminal(["run", *arguments], cwd=here, env=plain, columns=columns, rows=rows)

    return run


def stored(path):
    """Return the sessions of a store, the oldest first, as lists of messages."""

    async def read():
        async with SqliteStore(path, read_only=True) as store:
            return [list(await store.read(session.id)) for session in await store.sessions()]

    return asyncio.run(read())


def one_line(done, code):
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert KEY not in done.stderr
    return done.stderr


async def test_a_prompt_is_answered_with_tools(here, command):
    (here / "a.txt").write_text("the file")
    reading = [("text", "I look."), ("call", "c1", "read_file", '{"path": "a.txt"}')]
    async with FakeProvider([reading, [("text", "All is well: ä €.")]]) as server:
        done = await asyncio.to_thread(
            command,
            *("run", "what is in it?", "--model=openai:m", "--tools=files", "--system=Be brief."),
            OPENAI_BASE_URL=f"{server.url}/v1",
            OPENAI_API_KEY=KEY,
        )

    assert (done.returncode, done.stdout) == (0, "I look.\nAll is well: ä €.\n")
    assert '→ read_file {"path":"a.txt"}' in done.stderr
    assert "✓ read_file: 1 line" in done.stderr
    assert "tokens: 50 in, 10 from the cache, 14 out" in done.stderr
    sent = [message["content"] for message in server.requests[1].body["messages"]]
    assert sent == ["Be brief.", "what is in it?", "I look.", "the file"]
    assert KEY not in done.stdout + done.stderr


def test_a_prompt_comes_from_a_pipe(here, environment, tape):
    model = tape("Fine.").partition("=")[2]
    done = subprocess.run(
        [sys.executable, "-m", "toolbus", "run", "--store=s.db"],
        cwd=here,
        env=environment | {"TOOLBUS_MODEL": model},
        input="Fürs Erste\n".encode(),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, b"Fine.\n")
    (messages,) = stored(here / "s.db")
    assert messages[0].text == "Fürs Erste"


def test_json_output_has_one_object_per_line(here, command, tape, config):
    calls = [
        ToolCall(id="c1", name="read_file", arguments={"path": "handlers.py", "limit": 1}),
        ToolCall(id="c2", name="shell", arguments={"command": "touch x"}),
    ]
    model = tape(AssistantMessage(content="I work.", tool_calls=calls), "Done.")

    done = command("run", "go", model, "--tools=shell,files", "--json", config("Careful"))

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = ["start", "text", "text", "call", "call", "question", "result", "result"]
    assert [line["kind"] for line in lines] == [*kinds, "text", "end"]
    said = [(line["turn"], line["text"]) for line in lines if line["kind"] == "text"]
    assert said == [(1, "I "), (1, "work."), (2, "Done.")]
    page = command("guide", "run").stdout
    for line in lines:
        (documented,) = re.findall(rf"^\| `{line['kind']}` +\| (.+)$", page, re.MULTILINE)
        assert set(line) - {"kind"} <= set(re.findall(r"\w+", documented))
    question, end = lines[5], lines[-1]
    assert end["text"] == "Done."
    assert question["arguments"] == {"command": "echo soft; touch x"}
    assert (question["approved"], question["id"]) == (False, "c2")
    assert [line["is_error"] for line in lines[6:8]] == [False, True]
    assert (end["status"], end["turns"], end["session"]) == ("ok", 2, None)
    assert "printed by a handler" in done.stderr


BEGUN = {
    "openai:m": shapes.chat_chunks,
    "openai-responses:m": shapes.response_events,
    "anthropic:m": shapes.anthropic_events,
}


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("openai:m", ""),
        pytest.param("openai-responses:m", "--json", marks=pytest.mark.full),
        pytest.param("anthropic:m", "terminal", marks=pytest.mark.full),
    ],
)
async def test_text_is_shown_as_it_comes(here, environment, terminal, model, option):
    events = BEGUN[model]([("text", "Let me look at it")])
    (end,) = [number for number, event in enumerate(events) if '"ook "' in json.dumps(event)]

    async with FakeProvider([Reply(events=events[: end + 1], hangs=True)]) as server:
        variables = addresses(server)
        if option == "terminal":
            code, shown = await asyncio.to_thread(interrupt_typed, terminal, model, variables)
        else:
            env = environment | variables
            words = ["run", "go", f"--model={model}", *([option] if option else [])]
            code, shown = await asyncio.to_thread(interrupt_piped, words, here, env)

    assert code == 130
    if option == "--json":
        *pieces, end = [json.loads(line) for line in shown.splitlines()]
        assert (end["kind"], end["status"]) == ("end", "cancelled")
        shown = "".join([piece.get("text", "") for piece in pieces]) + "\n"
    assert shown.partition("\n")[0].startswith("Let me look")
    assert shown.endswith("toolbus: interrupted\n" if option == "terminal" else "\n")


def addresses(server):
    """Return the variables by which each provider is asked at *server*."""
    return {
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
    }


def interrupt_typed(terminal, model, variables):
    with terminal("go", f"--model={model}", **variables) as person:
        person.expect("Let me look")
        person.type("\x03")
        code, shown = person.end()
    return code, f"Let me look{shown.removeprefix('^C')}"


def interrupt_piped(words, folder, env):
    program = [sys.executable, "-m", "toolbus", *words]
    with subprocess.Popen(program, cwd=folder, env=env, stdout=subprocess.PIPE) as process:
        shown = b""
        while b"ook " not in shown:
            shown += (piece := os.read(process.stdout.fileno(), 4096))
            assert piece, shown
        process.send_signal(signal.SIGINT)
        shown += process.stdout.read()
    return process.returncode, shown.decode()


@pytest.mark.full
async def test_held_text_comes_when_released(here, command, config):
    answers = [[("text", f"one {word} three")] for word in ("two", "bad", "odd")]

    async with FakeProvider(answers) as server:
        done = [
            await asyncio.to_thread(
                command, *("run", "go", "--model=openai:m", config(name)), **addresses(server)
            )
            for name in ("Judging", "Judging", "Changing")
        ]

    assert [each.stdout for each in done] == ["one two three\n", "", "one even three\n"]
    assert [each.returncode for each in done] == [0, 1, 0]
    assert "bad" not in done[1].stderr


async def test_questions_and_warnings_break_no_line(here, terminal, config):
    asking = [("text", "I begin,\nand touch"), ("call", "c1", "shell", TOUCH)]

    async with FakeProvider([asking, [("text", "It is done")]]) as server:
        done = asyncio.to_thread(talk_of_a_call, terminal, config("Warning"), addresses(server))
        code, before, shown = await done

    assert code == 0
    question = before[before.index("the model calls ") :]
    shown = f"{before.removesuffix(question)}{QUESTION}{shown}"
    assert "toolbus:" not in question
    assert [line for line in shown.splitlines() if line] == [
        "I begin,",
        "toolbus: a piece came",
        "and touch",
        '→ shell {"command":"touch ran"}',
        f"{QUESTION}y",
        "✓ shell: 0 lines",
        "It is done",
        "toolbus: a piece came",
        "tokens: 50 in, 10 from the cache, 14 out",
    ]


TOUCH = '{"command": "touch ran"}'


def talk_of_a_call(terminal, option, variables):
    with terminal("go", "--model=openai:m", "--tools=shell", option, **variables) as person:
        before = person.expect(QUESTION)
        person.type("y\n")
        code, shown = person.end()
    return code, before, shown


@pytest.mark.full
async def test_a_cost_needs_a_price(here, command):
    table = '[[price]]\nmodel = "openai:*"\ninput = 2\noutput = 10.0\n'
    (here / "some.toml").write_text(table)
    cases = {
        "--price=input=2,output=10,cache_read=1": "; cost: 0.000115 USD",
        "--config=some.toml": "; cost unknown: no price of cache_read",
    }

    async with FakeProvider(lambda _: [("text", "Fine.")]) as server:
        for option, cost in cases.items():
            words = ("run", "go", "--model=openai:m", option)
            done = await asyncio.to_thread(command, *words, **addresses(server))
            line = f"tokens: 25 in, 5 from the cache, 7 out{cost}\n"
            assert (done.returncode, done.stderr) == (0, line)


def test_without_a_terminal_calls_are_denied(here, command, tape):
    writing = calling("write_file", path="new.txt", content="x")
    model = tape(writing, calling("shell", "c2", command="touch ran"), "Done.")

    done = command("run", "go", model, "--tools=shell,files")
    told = command("run", "go", model, "--tools=shell,files", "--json")

    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert not (here / "new.txt").exists()
    assert not (here / "ran").exists()
    assert "; --store keeps the question for `toolbus approvals`, " in done.stderr
    assert "--yes asks only where the configuration asks" in done.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    answers = [line["text"] for line in lines if line["kind"] == "result"]
    assert answers == ["approval is needed, and there is no terminal to ask at"] * 2


def questions_in(path):
    """Return the questions of the only session of a store, the oldest first."""

    async def read():
        async with SqliteStore(path) as store:
            (session,) = await store.sessions()
            return await questions_of(store, session.id)

    return asyncio.run(read())


def answer_in(path):
    """Approve the one question of a store, and return its id."""

    async def give():
        async with SqliteStore(path) as store:
            (session,) = await store.sessions()
            questions = await questions_of(store, session.id)
            waiting = [one for one in questions if one.state == "pending"]
            for one in waiting:
                await answer(store, one.id, one.digest, approve=True, by="ann", channel="elsewhere")
            return [one.id for one in waiting]

    return asyncio.run(give())


def test_with_a_store_a_call_waits(here, command, tape):
    model = tape(calling("shell", command="echo ran >> ran"), "Done.")

    waiting = command("run", "go", model, "--tools=shell", "--store=s.db", "--json")
    still = command("run", model, "--tools=shell", "--store=s.db", "--resume")
    answered = answer_in(here / "s.db")
    done = command("run", tape("Done.", name="rest"), "--tools=shell", "--store=s.db", "--resume")
    again = command("run", model, "--tools=shell", "--store=s.db", "--resume")

    end = json.loads(waiting.stdout.splitlines()[-1])
    assert (waiting.returncode, still.returncode, done.returncode) == (3, 3, 0)
    assert (end["status"], end["pending"]) == ("pending", answered)
    assert answered[0] in still.stderr
    assert done.stdout == "Done.\n"
    assert (here / "ran").read_text() == "ran\n"
    assert "give a prompt" in one_line(again, 2)


def test_an_answer_from_elsewhere_ends_the_question(here, tape, terminal):
    model = tape(calling("shell", command="touch ran"), "Done.")

    with terminal("go", model, "--tools=shell", "--store=s.db") as person:
        person.expect(QUESTION)
        answer_in(here / "s.db")
        person.expect("approved by ann (elsewhere)\n")
        code, _ = person.end()

    assert code == 0
    assert (here / "ran").exists()


def test_the_question_shows_the_final_call(here, tape, config, terminal):
    calls = [
        ToolCall(id=f"c{number}", name="shell", arguments={"command": f"touch ran{number}"})
        for number in (1, 2)
    ]
    listing = ToolCall(id="c0", name="list_files", arguments={})
    model = tape(AssistantMessage(tool_calls=[listing, *calls]), "Done.")

    with terminal("go", model, "--tools=shell,files", "--store=s.db", config("Careful")) as person:
        first = person.expect(QUESTION)
        person.type("v\n")
        details = person.expect(QUESTION)
        while not [m for messages in stored(here / "s.db") for m in messages if m.role == "tool"]:
            time.sleep(0.01)
        person.type("y\n")
        between = person.expect("y\n")
        second = person.expect(QUESTION)
        person.type("n take git\n")
        code, _ = person.end()

    assert code == 0
    # What came from the first call meanwhile did not stand between the question and its answer.
    assert between == ""
    for number, question in enumerate((first, second), 1):
        assert question.count("the model calls shell") == 1
        assert f"│ echo soft; touch ran{number}\n" in question
        assert "changed by\n│ Careful.soften\n" in question
        assert f"│ touch ran{number}\n" in question
        assert "it may change something" in question
    assert (here / "ran1").exists()
    assert not (here / "ran2").exists()
    (messages,) = stored(here / "s.db")
    results = {m.tool_call_id: m.text for m in messages if m.role == "tool"}
    assert results["c2"] == "the person refused this call: take git"
    person_here = pwd.getpwuid(os.getuid()).pw_name
    for question, shown in zip(questions_in(here / "s.db"), (first, second), strict=True):
        assert (question.answered_by, question.answered_from) == (person_here, "terminal")
        assert question.digest not in shown
    assert f"digest {questions_in(here / 's.db')[0].digest}\n" in details


@pytest.mark.parametrize("columns", [80, 44])
def test_arguments_cannot_forge_the_question(tape, terminal, columns):
    hostile = f"ls\x1b[2J\x1b]0;x\x07\r\u202eevil\x9b2J\n{QUESTION}y"
    padded = " " * 200 + "the model calls read_file"
    model = tape(calling("shell", **{"command": hostile, padded: padded, "\x1b[2J": 1}), "Done.")

    with terminal("go", model, "--tools=shell", columns=columns, rows=100) as person:
        shown = person.expect("\nthe model calls shell\n")
        question = person.expect(f"\n{QUESTION}")
        person.type("n\n")
        code, _ = person.end()

    assert code == 0
    assert not [char for char in shown + question if not (char.isprintable() or char == "\n")]
    rows = question.splitlines()
    assert max(map(len, rows)) <= columns
    value = "".join([row[2:] for row in rows if row.startswith("│")])
    assert "ls\\x1b[2J\\x1b]0;x\\x07\\r\\u202eevil\\x9b2J" in value
    for ours in ("approve?", "the model calls", "read_file"):
        marked = [row for row in rows if row.startswith("│")]
        assert [row for row in rows if ours in row] == [row for row in marked if ours in row]
    assert value.count("the model calls read_file") == 2


def test_long_arguments_come_page_by_page(here, tape, terminal):
    lines = "\n".join([f": {number}" for number in range(80)])
    model = tape(calling("shell", command=lines), calling("shell", "c2", command="true"), "Done.")

    with terminal("go", model, "--tools=shell", "--store=s.db") as person:
        pages = [person.expect(NEXT)]
        person.type("y\n")
        refused = person.expect(NEXT)
        person.type("\n")
        pages.append(person.expect(NEXT))
        person.type("\n")
        pages.append(person.expect(NEXT))
        person.type("\n")
        pages.append(person.expect(QUESTION))
        person.type("v\n")
        again = person.expect(NEXT)
        person.type("n too long\n")
        person.expect(QUESTION)
        person.type("y\n")
        code, _ = person.end()

    assert code == 0
    numbers = re.findall(r"│ : (\d+)\n", "".join(pages))
    assert numbers == [str(number) for number in range(80)]
    assert [len(page.strip("\n").splitlines()) for page in pages[1:-1]] == [23, 23]
    assert "only after the last page" in refused
    assert re.search(r"page 1 of \d\n", again)
    assert [each.state for each in questions_in(here / "s.db")] == ["denied", "done"]
    assert questions_in(here / "s.db")[0].reason.endswith(": too long")


@pytest.mark.full
def test_a_grant_approves_similar_calls(here, tape, terminal):
    calls = [calling("shell", f"c{n}", command=f"echo ran >> ran{n}") for n in range(3)]
    other = calling("write_file", "c3", path="new.txt", content="x")

    with terminal("go", tape(*calls, other, "Done."), "--tools=shell,files", "--store=s.db") as one:
        one.expect(QUESTION)
        one.type("session\n")
        meant = one.expect("approve all of that? [y, n] ")
        one.type("n\n")
        one.expect(QUESTION)
        one.type("for 1h\n")
        limited = one.expect("approve all of that? [y, n] ")
        one.type("y\n")
        granted = one.expect(QUESTION)
        one.type("n\n")
        code, _ = one.end()

    assert code == 0
    assert "every call of shell, whatever its arguments" in meant
    assert "until it ends" in meant
    assert "for 3,600 seconds" in limited
    assert re.search(r"`toolbus approvals --store \S+ revoke \w+` ends the grant", granted)
    assert "the model calls write_file" in granted
    assert [(here / f"ran{number}").read_text() for number in range(3)] == ["ran\n"] * 3
    assert not (here / "new.txt").exists()


@pytest.mark.full
@pytest.mark.parametrize("options", [(), ("--store=s.db",)])
def test_no_answer_leaves_the_question_open(here, tape, terminal, options):
    model = tape(calling("shell", command="touch ran"), "Done.")

    with terminal("go", model, "--tools=shell", *options) as person:
        person.expect(QUESTION)
        person.type("?\n")
        help_text = person.expect(QUESTION)
        person.type("\x04")
        ended, shown = person.end()

    assert ended == (3 if options else 0)
    assert not (here / "ran").exists()
    assert ("to other channels" in help_text) == bool(options)
    assert shown.lstrip(" ^D\b").startswith(("\n", "\r\n"))
    assert ("is still pending" in shown) == bool(options)
    assert ("the person refused this call" in shown) == (not options)
    assert not options or [each.state for each in questions_in(here / "s.db")] == ["pending"]


@pytest.mark.full
def test_an_agent_cannot_answer_at_its_terminal(here, tape, environment):
    model = tape(calling("shell", command="touch ran"), "Done.")
    words = [sys.executable, "-m", "toolbus", "run", "go", model, "--tools=shell"]
    ours, theirs = pty.openpty()

    with subprocess.Popen(
        words,
        cwd=here,
        env=environment | {"CLAUDECODE": "1"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        answered = process.stdout.read()
    shown = os.read(ours, 65_536).decode()
    os.close(ours)

    assert answered == b"Done.\n"
    assert "the variable CLAUDECODE marks a process of an agent" in shown
    assert not (here / "ran").exists()


def test_an_edit_s_question_shows_the_difference(here, tape, terminal):
    lines = [f"line {number}" for number in range(1, 21)]
    before = "\r\n".join([*lines[:10], "old \x1b[2J", *lines[10:]])
    (here / "a.txt").write_bytes(before.encode())
    editing = calling("edit_file", path="a.txt", old_text="old ", new_text="new\n+ ")
    writing = calling("write_file", "c2", path="b.txt", content="one\ntwo\n")
    failing = calling("edit_file", "c3", path="a.txt", old_text="nowhere", new_text="x")

    model = tape(editing, writing, failing, "Done.")
    with terminal("go", model, "--tools=files", rows=40) as person:
        shown = []
        for answer in "yyy":
            shown.append(person.expect(QUESTION))
            person.type(f"{answer}\n")
        code, last = person.end()

    assert code == 0
    edit, made, unknown = shown
    assert "change of the file: 2 lines added, 1 removed\n" in edit
    rows = edit.partition("\nthe difference (written with escapes)\n")[2].splitlines()
    assert rows[:10] == [
        "│ @@ -8,7 +8,8 @@",
        *[f"│  line {number}\\r" for number in (8, 9, 10)],
        "│ -old \\x1b[2J\\r",
        "│ +new\\r",
        "│ ++ \\x1b[2J\\r",
        *[f"│  line {number}\\r" for number in (11, 12, 13)],
    ]
    assert "\x1b" not in edit
    assert "✓ edit_file: a.txt was written: 2 lines added, 1 removed" in made
    assert "change of the file: a new file, 2 lines\n" in made
    assert "difference" not in made
    assert "change of the file: unknown\n" in unknown
    assert "the reason\n│ old_text is not in the file" in unknown
    assert "✗ edit_file: old_text is not" in last
    assert (here / "a.txt").read_bytes() == before.replace("old ", "new\r\n+ ").encode()


def test_a_changed_file_is_another_question(here, tape, terminal):
    file = here / "a.txt"
    file.write_text("one\ntwo\n")
    editing = calling("edit_file", path="a.txt", old_text="two", new_text="2")

    with terminal("go", tape(editing, "Done."), "--tools=files") as person:
        first = person.expect(QUESTION)
        file.write_text("one, secretly\ntwo\n")
        person.type("y\n")
        again = person.expect(QUESTION)
        person.type("y\n")
        code, shown = person.end()

    assert "│  one\n" in first
    assert "the file has changed meanwhile" in again
    assert "│  one, secretly\n" in again
    assert (code, file.read_text()) == (0, "one, secretly\n2\n")
    assert "Done." in shown


QUOTES = """
import re
from toolbus import AgentComponent, events, on

class Quotes(AgentComponent):
    shown = ""
    @on(events.MESSAGE_APPEND_AFTER, roles="tool")
    def read(self, ctx):
        self.shown = (re.findall(r"\\[github-pat-[a-z2-7]{16}]", ctx.value.text) or [""])[0]
    @on(events.TOOL_CALL_BEFORE, tools="write_file")
    def quote(self, ctx):
        text = ctx.value.arguments["content"].replace("[…]", self.shown)
        return ctx.value.merge_arguments({"content": text})
"""


def test_an_unchanged_secret_is_not_a_difference(here, tape, terminal):
    file, secret = here / "env.txt", "ghp_" + "".join(random.choices(string.ascii_letters, k=36))
    file.write_text(f"A=1\nTOKEN={secret}\nB=2\n")
    (here / "quotes.py").write_text(QUOTES)
    uses = ("redact-secrets", "./quotes.py")
    (here / "quotes.toml").write_text("".join([f"[[component]]\nuse = '{use}'\n" for use in uses]))
    reading = calling("read_file", path="env.txt")
    writing = calling("write_file", "c2", path="env.txt", content="A=2\nTOKEN=[…]\nB=2\n")

    model = tape(reading, writing, "Done.")
    with terminal("go", model, "--tools=files", "--config=quotes.toml", rows=60) as person:
        asked = person.expect(QUESTION)
        person.type("y\n")
        code, shown = person.end()

    assert "│ -A=1\n│ +A=2\n│  TOKEN=(secret github-pat)\n│  B=2\n" in asked
    assert "the tool gets other values" in asked
    assert secret not in asked + shown
    assert (code, file.read_text()) == (0, f"A=2\nTOKEN={secret}\nB=2\n")


def test_input_before_a_question_is_discarded(here, tape, terminal):
    slow = here / "slow.py"
    slow.write_text(
        "from toolbus import AgentComponent, events, on\nimport time\nclass Slow(AgentComponent):\n"
        "    @on(events.RUN_BEFORE)\n    def wait(self, ctx):\n        print('ready', flush=True)\n"
        "        import pathlib\n        while not pathlib.Path('typed').exists():\n"
        "            time.sleep(0.01)\n"
    )
    (here / "slow.toml").write_text('[[component]]\nuse = "./slow.py"\n')
    calls = [calling("shell", f"c{number}", command="touch ran") for number in (1, 2)]
    model = tape(*calls, "Done.")

    with terminal("go", model, "--tools=shell", "--config=slow.toml") as person:
        person.expect("ready")
        person.type("y\n")
        person.expect("y\n")
        (here / "typed").touch()
        person.expect(QUESTION)
        person.type("n later\n")
        first = person.expect(QUESTION)
        person.type("\x03")
        code, shown = person.end()

    assert code == 0
    assert "the person refused this call: later" in first
    assert "the person refused this call" in shown
    assert "Done." in shown
    assert not (here / "ran").exists()


def test_the_option_yes_asks_about_other_folders(here, command, tape):
    writing = [
        calling("write_file", f"c{number}", path=path, content="x")
        for number, path in enumerate(("in.txt", "../out.txt"))
    ]

    done = command("run", "go", tape(*writing, "Done."), "--tools=files", "--yes")

    assert done.returncode == 0
    assert (here / "in.txt").exists()
    assert not (here.parent / "out.txt").exists()
    assert "✗ write_file: approval is needed" in done.stderr


def test_an_allow_rule_counts_as_approval(here, command, tape, person):
    rules = """
        [[component]]
        use = "policy"
        settings.default = "allow"
        [[component.settings.rule]]
        name = "notes"
        verdict = "allow"
        effects = ["read", "write"]
        writes = ["notes/**"]
        [component.settings.tools.write_file]
        effects = ["write"]
        """
    (here / "toolbus.toml").write_text(textwrap.dedent(rules))
    paths = ("notes/a.txt", "b.txt")
    writing = [calling("write_file", path, path=path, content="x") for path in paths]

    def written(*options):
        done = command("run", "go", tape(*writing, "Done."), "--tools=files", *options)
        assert done.returncode == 0, done.stderr
        files = [path for path in paths if (here / path).exists()]
        for path in files:
            (here / path).unlink()
        return files

    named = written("--config=toolbus.toml")
    person("trust")
    found = written()

    assert named == ["notes/a.txt"]
    assert found == []
    assert written("--yes") == [*paths]


@pytest.mark.full
def test_hints_of_servers_are_not_trusted(here, command, tape):
    peek = {"name": "peek", "inputSchema": {"type": "object"}}
    pages = [[peek | {"annotations": {"readOnlyHint": True}}]]
    result = {"content": [{"type": "text", "text": "seen"}]}
    (here / "served.json").write_text(json.dumps({"pages": pages, "results": {"peek": result}}))
    program = "import sys; print('\\x1b[2Jtrouble', file=sys.stderr, flush=True);"
    program += f"import runpy; runpy.run_path({str(LISTED)!r})"
    server = f'--mcp={sys.executable} -c "{program}" served.json'
    model = tape(calling("peek"), "Done.")

    denied = command("run", "go", model, server)
    allowed = command("run", "go", model, server, "--trust-hints")

    assert "✗ peek: approval is needed" in denied.stderr
    assert "✓ peek: 1 line" in allowed.stderr
    assert "trouble" in allowed.stderr
    assert "\x1b" not in denied.stderr + allowed.stderr


PROGRAM = """
import asyncio
from toolbus import Agent, Ask, events
from toolbus.cli import TerminalApprover
from toolbus.models import ScriptedModel

def pay(note: str) -> str:
    return "paid"

agent = Agent(ScriptedModel([]), tools=[pay], approver=TerminalApprover())
agent.guard(events.TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"))

async def main():
    ticks = []
    async def tick():
        while True:
            ticks.append(await asyncio.sleep(0))
    ticking = asyncio.create_task(tick())
    for note in ("\\x1b[2J", "x" * 4_000):
        before = len(ticks)
        outcome = await agent.call_tool("pay", note=note)
        print("ended:", outcome.response.text, len(ticks) > before + 10, flush=True)

asyncio.run(main())
"""


def test_a_program_asks_at_its_terminal(here, environment):
    (here / "paying.py").write_text(PROGRAM)
    plain = environment | {"NO_COLOR": "1"}

    with Terminal([], cwd=here, env=plain, module="paying") as person:
        shown = person.expect(QUESTION)
        person.type("y\n")
        person.expect("ended: paid True")
        person.expect(NEXT)
        person.type("y\n")
        person.expect("a yes counts only after the last page")
        person.expect(NEXT)
        person.type("n too much\n")
        person.expect("ended: the person refused this call: too much True")
        code, _ = person.end()

    assert code == 0
    assert "the model calls pay" in shown
    assert r"│ \x1b[2J" in shown


def test_without_a_terminal_a_program_s_calls_are_denied(here, environment):
    (here / "paying.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "paying.py"],
        cwd=here,
        env=environment,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )

    assert (
        done.stdout.count(
            "ended: approval is needed; this needs a person at an interactive terminal"
        )
        == 2
    )


def test_an_untrusted_configuration_does_not_apply(here, command, person, tape, config):
    config("Forbidding")
    model = tape(calling("shell", command="touch ran"), "Done.")

    before = command("run", "go", model, "--tools=shell", "--yes")
    ran = (here / "ran").exists()
    (here / "ran").unlink()
    person("trust")
    after = command("run", "go", model, "--tools=shell", "--yes")

    assert ran
    assert "is not trusted, so it is not active" in before.stderr
    assert "✗ shell: no commands here" in after.stderr
    assert not (here / "ran").exists()


@pytest.mark.full
def test_servers_of_the_configuration_are_opened(here, command, tape):
    peek = {"name": "peek", "inputSchema": {"type": "object"}}
    pages = [[peek | {"annotations": {"readOnlyHint": True}}]]
    result = {"content": [{"type": "text", "text": "seen"}]}
    (here / "served.json").write_text(json.dumps({"pages": pages, "results": {"peek": result}}))
    words = json.dumps([str(LISTED), "served.json"])
    (here / "servers.toml").write_text(
        f'[[server]]\nname = "files"\ncommand = "{sys.executable}"\nargs = {words}\n'
        '[[server]]\nname = "off"\ncommand = "nowhere"\nenabled = false\n'
    )
    model = tape(calling("files_peek"), "Done.")

    denied = command("run", "go", model, "--config=servers.toml")
    allowed = command("run", "go", model, "--config=servers.toml", "--trust-hints")

    assert "✗ files_peek: approval is needed" in denied.stderr
    assert "✓ files_peek: 1 line" in allowed.stderr


@pytest.mark.full
def test_a_failing_server_is_named(here, command, tape):
    model = tape("Done.")
    cases = {
        'command = "./nowhere"': (1, "servers.toml:2: server 'x'"),
        'command = "true"': (1, "servers.toml:2: server 'x'"),
        'url = "ftp://127.0.0.1"': (2, "servers.toml:2: server 'x': expected an http or https URL"),
        'url = "http://[::1]:1"\nheaders = { A = "env:NO_SUCH" }': (2, "NO_SUCH is not set"),
        'command = "true"\n[[server]]\nname = "X"\ncommand = "true"': (2, "servers.toml:6"),
    }

    for lines, (code, reason) in cases.items():
        (here / "servers.toml").write_text(f'\n[[server]]\nname = "x"\n{lines}\n')
        line = one_line(command("run", "go", model, "--config=servers.toml"), code)
        assert reason in line
        assert "servers.toml:" in line


async def write_below(path):
    """Write to a session of a sub-agent, as the latest."""
    async with SqliteStore(path) as store:
        message = UserMessage(id="u", content="for a sub-agent")
        await store.append("another/c1/x", AppendRequest(message=message))


def test_a_session_is_resumed(here, command, tape):
    model = tape("Yes.")
    first = command("run", "one", model, "--store=s.db", "--json")
    session = json.loads(first.stdout.splitlines()[0])["session"]
    command("run", "two", model, "--store=s.db")
    asyncio.run(write_below(here / "s.db"))

    command("run", "three", model, "--store=s.db", "--resume")
    resumed = command("run", "four", model, "--store=s.db", f"--resume={session[:6]}")
    told = {tuple(m.text for m in messages) for messages in stored(here / "s.db")}
    told.remove(("for a sub-agent",))
    for file in here.glob("s.db*"):
        file.unlink()
    command("run", "five", model)

    assert told == {("one", "Yes.", "four", "Yes."), ("two", "Yes.", "three", "Yes.")}
    assert f"session {session}" in resumed.stderr
    assert not list(here.glob("*.db"))


@pytest.mark.full
def test_an_interrupted_run_is_resumed(here, command, tape, environment, terminal):
    model = tape(calling("shell", command="touch running; sleep 60"), "Done.")
    again = tape("I go on.", name="again.jsonl")

    with terminal("go", model, "--tools=shell", "--yes", "--store=a.db") as person:
        wait_for(here / "running")
        person.type("\x03")
        code, shown = person.end()
    (here / "running").unlink()
    with terminal("go", model, "--tools=shell", "--yes", "--store=b.db") as person:
        wait_for(here / "running")
        os.kill(person.process.pid, signal.SIGKILL)

    assert code == 130
    assert re.search(r"\nsession \w+\n\ntoolbus: interrupted\n$", shown)
    for store in ("a.db", "b.db"):
        done = command("run", "go on", again, f"--store={store}", "--resume")
        (messages,) = stored(here / store)
        roles = [message.role for message in messages]
        assert (done.returncode, done.stdout) == (0, "I go on.\n")
        assert roles == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_its_question(here, command, tape, environment, number):
    model = tape(calling("shell", command="echo ran >> ran"), "Done.")
    words = ["run", "go", model, "--tools=shell", "--store=s.db", "--approval-wait=60"]

    with subprocess.Popen(
        [sys.executable, "-m", "toolbus", *words],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while "shell" not in process.stderr.readline():
            pass
        while not questions_in(here / "s.db"):
            time.sleep(0.01)
        process.send_signal(number)
        _, shown = process.communicate()
    (question,) = questions_in(here / "s.db")
    answer_in(here / "s.db")
    done = command("run", tape("Done.", name="rest"), "--tools=shell", "--store=s.db", "--resume")

    assert (process.returncode, question.state) == (3, "pending")
    assert f"question {question.id} waits for a person" in shown
    assert re.search(r"go on:    toolbus run --store s\.db --resume \w+\n", shown)
    assert (done.returncode, (here / "ran").read_text()) == (0, "ran\n")


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


@pytest.mark.full
def test_a_stored_session_is_replayed(here, command, tape):
    command("run", "what is it?", tape("Fine."), "--store=s.db")
    asyncio.run(write_below(here / "s.db"))
    (session,) = [each for each in session_ids(here / "s.db") if "/" not in each]

    same = command("run", "what is it?", f"--model=replay:s.db#{session[:8]}")
    other = command("run", "how long?", "--model=replay:s.db")

    assert (same.stdout, same.stderr, other.stdout) == ("Fine.\n", "", "Fine.\n")
    reason = "answer 1 was recorded for 'what is it?', but the prompt is 'how long?'"
    assert other.stderr == f"toolbus: model 'replay': {reason}\n"


def session_ids(path):
    async def read():
        async with SqliteStore(path, read_only=True) as store:
            return [session.id for session in await store.sessions()]

    return asyncio.run(read())


@pytest.mark.full
def test_prompts_are_typed_one_by_one(here, tmp_path, tape, terminal):
    model = tape("First.", "Second.", "Third.")
    typing = {"PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(tmp_path / "state")}

    with terminal(model, "--store=s.db", **typing) as person:
        person.expect("Ctrl-D ends")
        person.expect(READY)
        person.type("one\x1b\rmore\r")
        person.expect("First.")
        person.expect(READY)
        person.type("two\r")
        person.expect("Second.")
        person.expect(READY)
        person.type("\x04")
        code, _ = person.end()
    with terminal(model, "--store=s.db", "--resume", **typing) as person:
        person.expect(READY)
        person.type("\x1b[A\r")
        person.expect("First.")
        person.expect(READY)
        person.type("\x04")
        person.end()

    assert code == 0
    (messages,) = stored(here / "s.db")
    said = [message.text for message in messages if message.role == "user"]
    assert said == ["one\nmore", "two", "two"]
    assert (tmp_path / "state/toolbus/history").stat().st_mode & 0o777 == 0o600


@pytest.mark.full
def test_ctrl_c_stops_only_a_turn(here, tmp_path, tape, terminal):
    model = tape(calling("shell", command="touch running; sleep 60"), "I go on.")
    typing = {"PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(tmp_path / "state")}

    with terminal(model, "--tools=shell", "--yes", "--store=s.db", **typing) as person:
        person.expect(READY)
        person.type("go\r")
        wait_for(here / "running")
        person.type("\x03")
        person.expect("stopped")
        person.expect(READY)
        person.type("go on\r")
        person.expect("I go on.")
        person.expect(READY)
        person.type("\x04")
        code, _ = person.end()

    assert code == 0
    (messages,) = stored(here / "s.db")
    roles = [message.role for message in messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.full
async def test_ctrl_c_within_a_text_keeps_the_session(here, tmp_path, terminal):
    events = shapes.chat_chunks([("text", "Let me look")])[:3]
    typing = {"PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(tmp_path / "state")}

    def talk(variables):
        with terminal("--model=openai:m", "--store=s.db", **variables) as person:
            person.expect(READY)
            person.type("go\r")
            person.expect("Let me l")
            person.type("\x03")
            after = person.expect("stopped")
            person.expect(READY)
            person.type("go on\r")
            person.expect("I go on.")
            person.expect(READY)
            person.type("\x04")
            return person.end()[0], after

    answers = [Reply(events=events, hangs=True), [("text", "I go on.")]]
    async with FakeProvider(answers) as server:
        code, after = await asyncio.to_thread(talk, addresses(server) | typing)

    assert code == 0
    assert re.fullmatch(r"(\^C)?\nsession \w+\n", after)
    said = await asyncio.to_thread(stored, here / "s.db")
    assert [(m.role, m.text) for m in said[0]] == [
        ("user", "go"),
        ("user", "go on"),
        ("assistant", "I go on."),
    ]


@pytest.mark.full
def test_missing_parts_are_usage_errors(here, command, tape, environment, terminal):
    model = tape("Done.")
    without = here / "without"
    without.mkdir()
    (without / "openai.py").write_text("raise ImportError('none here')")
    hidden = f"{without}{os.pathsep}{environment['PYTHONPATH']}"
    command("run", "go", model, "--store=s.db")
    cases = {
        ("run", "go"): "TOOLBUS_MODEL",
        ("run", model): "which prompt?",
        ("run", "go", "--model=openai:m"): "OPENAI_API_KEY",
        ("run", "go", "--model=anthropics:m"): "did you mean 'anthropic'?",
        ("run", "go", "--model=replay:none.jsonl"): "none.jsonl",
        ("run", "go", model, "--tools=shel"): "unknown component 'shel'",
        ("run", "go", model, "--resume"): "--store",
        ("run", "go", model, "--store=none.db", "--resume"): "none.db",
        ("run", "go", model, "--store=s.db", "--resume=nobody"): "no session 'nobody'",
        ("run", "go", model, "--mcp="): "--mcp is empty",
        ("run", "go", model, "--max-turns=0"): "--max-turns",
    }

    for words, way_out in cases.items():
        assert way_out in one_line(command(*words, OPENAI_API_KEY=""), 2)
    line = one_line(command("run", "go", "--model=openai:m", PYTHONPATH=hidden), 2)
    assert "[openai]" in line
    (without / "prompt_toolkit.py").write_text("raise ImportError('none here')")
    with terminal(model, PYTHONPATH=hidden) as person:
        code, shown = person.end()
    assert (code, shown.count("\n")) == (2, 1)
    assert "[run]" in shown


@pytest.mark.full
async def test_failures_exit_with_1(here, command, tape):
    never = [calling("list_files", f"c{number}") for number in range(3)]
    model = tape(*never, name="never.jsonl")
    body = {"error": {"message": f"no, {KEY}", "type": "t"}}
    for reply, reason in (
        (Reply(401, body), "HTTP 401"),
        (Reply(429, body, {"retry-after-ms": "1"}), "HTTP 429"),
        (Reply(500, body, {"retry-after-ms": "1"}), "HTTP 500"),
    ):
        async with FakeProvider(lambda _, reply=reply: reply) as server:
            done = await asyncio.to_thread(run_at, command, server.url)
        assert reason in one_line(done, 1)

    assert "onnect" in one_line(await asyncio.to_thread(run_at, command, server.url), 1)
    done = command("run", "go", model, "--mcp=/bin/true")
    assert "mcp server" in one_line(done, 1)
    done = command("run", "go", model, "--tools=files", "--max-turns=2")
    assert done.returncode == 1
    assert "no final answer after 2 turns" in done.stderr
    command("run", "go", tape("Done."), "--store=s.db")
    async with SqliteStore(here / "s.db") as store:
        (session,) = await store.sessions()
        await store.open_session(session.id, "somebody", 600)
        busy = await asyncio.to_thread(
            command, "run", "go", tape("Done."), "--store=s.db", "--resume"
        )
    assert "session" in one_line(busy, 1)


def run_at(command, url):
    return command(
        *("run", "go", "--model=openai:m"), OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY=KEY
    )

"""The scenarios of `specs/reading.md`."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from toolbus import Agent, AgentComponent, AssistantMessage, Deny, ToolAdapter, ToolCall, events
from toolbus.errors import MessageDenied
from toolbus.messages import UserMessage, encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import FakeClock, counting_ids
from toolbus.tools import ToolContext

WRITER = """
import asyncio, sys
from toolbus import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

async def write(path, name):
    async with SqliteStore(path) as store:
        message = UserMessage(id=name, content="said elsewhere")
        await store.append("s", AppendRequest(message=message))

asyncio.run(write(*sys.argv[1:]))
"""
CALLS = (
    ToolCall(id="call-1", name="delete", arguments={"path": "/etc/passwd"}),
    ToolCall(id="call-2", name="read", arguments={"path": "./x/../log"}),
)
SCRIPT = (AssistantMessage(id="ask", content="I look.", tool_calls=CALLS), "All is well.")
EARLIER = {"id": "t-1", "messages": 1, "records": 0, "has_originals": False}


class Cut(ToolAdapter):
    tools = ("read",)

    def adapt_response(self, response, call):
        return response.map_text(lambda text: text[:11])


class Cutting(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Cut())


def read(path: str) -> str:
    return "all is well, the secret is qzxj"


def delete(path: str) -> str:
    return "deleted"


def normalise(ctx):
    return ctx.value.merge_arguments({"path": os.path.normpath(ctx.value.arguments["path"])})


def inside(ctx):
    return Deny("only inside the project") if ctx.value.arguments["path"][0] == "/" else None


def mask(ctx):
    masked = ctx.value.tool_response.map_text(lambda text: text.replace("well", "****"))
    return ctx.value.with_tool_response(masked)


def is_tool(ctx):
    return ctx.value.role == "tool"


def late(ctx):
    return None


@pytest.fixture
def path(tmp_path):
    """Return where the store is: in the folder of the command."""
    return tmp_path / "here/agent.db"


async def talk(path, script=SCRIPT, session_id="s-1", *, wire=lambda agent: None, **options):
    """Let an agent with our handlers run once."""
    async with (
        SqliteStore(path) as store,
        Agent(
            ScriptedModel(script),
            tools=[read, delete],
            components=[Cutting()],
            store=store,
            session_id=session_id,
            ids=counting_ids(),
            clock=FakeClock(),
            **options,
        ) as agent,
    ):
        agent.on(events.TOOL_CALL_BEFORE, normalise)
        agent.guard(events.TOOL_CALL_BEFORE, inside)
        agent.guard(events.TOOL_CALL_BEFORE, late, priority=7)
        agent.on(events.MESSAGE_PERSIST_BEFORE, mask, when=is_tool)
        wire(agent)
        await agent.run("clean up")


async def say(path, *messages, session_id="s"):
    async with SqliteStore(path) as store:
        for message in messages:
            await store.append(session_id, AppendRequest(message=message))


def user(name, text="hello"):
    return UserMessage(id=name, content=text)


@pytest.fixture
def run(command):
    """Return a function that runs a command and returns what it printed."""

    def run(*arguments):
        done = command(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.fixture
def refusal(command):
    """Return a function that runs a command in vain and returns its line, with 2, or *code*."""

    def run(*arguments, code=2):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert re.fullmatch(r"error: .*\n", done.stderr)
        return done.stderr.removeprefix("error: ").removesuffix("\n")

    return run


@pytest.fixture
def follow(environment, tmp_path):
    """Return a function that starts `toolbus show --follow`; it is ended with the test."""
    started = []

    def start(*arguments):
        child = subprocess.Popen(
            [sys.executable, "-m", "toolbus", "show", *map(str, arguments), "--follow"],
            cwd=tmp_path / "here",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def until(child, word):
    """Return the line of *child* that holds *word*."""
    return next(line for line in iter(child.stdout.readline, "") if word in line)


def files(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


# --- sessions -------------------------------------------------------------------------------------


async def test_sessions_are_listed_oldest_first(path, run):
    await say(path, user("u"), session_id="t-1")
    await talk(path, keep_originals=True)

    head, *lines = run("sessions", "agent.db").splitlines()

    assert head.split() == ["messages", "records", "last", "write", "(UTC)", "session"]
    pattern = r" +{} +{}  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  {}"
    assert re.fullmatch(pattern.format(1, 0, "t-1"), lines[0])
    assert re.fullmatch(pattern.format(5, 14, "s-1 +originals"), lines[1])


async def test_json_output_has_one_session_per_line(path, run):
    await say(path, user("u"), session_id="t-1")
    await talk(path)

    first, second = map(json.loads, run("sessions", "agent.db", "--json").splitlines())

    assert {name: first[name] for name in EARLIER} == EARLIER
    assert 0 < first["created_ns"] <= first["updated_ns"] <= second["created_ns"]
    assert second["id"] == "s-1"


async def test_an_empty_file_has_no_sessions(path, run):
    await say(path)

    text = run("sessions", "agent.db")

    assert text == "no sessions\n"


# --- a session as a timeline ----------------------------------------------------------------------


async def test_interventions_appear_between_the_messages(path, command):
    await talk(path)

    done = command("show", "agent.db", "s-1", COLUMNS="110")

    text = re.sub(r" +[\d.]+ [mµ]s$", "", done.stdout, flags=re.MULTILINE)

    head, times, *lines = [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]
    assert head == "session s-1  5 messages, 14 records"
    assert re.fullmatch(r"\S+ \S+ to \S+ \S+ UTC", times)
    assert "\n".join(lines) == (
        "\n  1  user  id-3\n  clean up\n"
        "\n  2  assistant  ask\n  I look.\n"
        '  → delete {"path":"/etc/passwd"}  call-1\n'
        '  → read {"path":"./x/../log"}  call-2\n'
        "  ✗ inside denied the call call-1\n  only inside the project\n"
        "  ~ normalise changed the call call-2, arguments: 74 → 67 bytes\n"
        "\n  3  tool  delete  denied  id-4\n  only inside the project\n"
        "\n  4  tool  read  ok  id-5\n  all is ****\n"
        "  ~ Cut changed the message id-5, tool_response: 338 → 318 bytes\n"
        "  ~ mask changed the stored copy id-5, tool_response: 318 → 318 bytes\n"
        f"\n  5  assistant  {lines[-2].split()[-1]}\n  All is well."
    )


async def test_a_refusal_at_the_end_is_shown(path, run):
    def wire(agent):
        agent.guard(events.RUN_BEFORE, lambda ctx: Deny("not at night"), name="night")

    await talk(path)
    await talk(path, wire=wire)

    text = run("show", "agent.db", "s-1")

    assert re.search(r"All is well\.\n +✗ night denied at run:before.*\n +not at night\n$", text)


async def test_a_part_can_be_shown(path, run):
    await say(path, *[user(f"u-{at}") for at in range(1, 6)])

    last, rest = run("show", "agent.db", "s", "--last", 2), run("show", "agent.db", "s", "--from=4")

    assert last == rest
    assert re.findall(r"u-\d", last) == ["u-4", "u-5"]


async def test_a_start_after_the_end_is_refused(path, run, command, follow):
    await say(path, *[user(f"u-{at}") for at in range(1, 6)])

    done = [command("show", "agent.db", "s", "--from=6", *more) for more in ([], ["--json"])]
    child = follow("agent.db", "s", "--from=6")
    await say(path, user("u-6"))

    assert [(one.returncode, one.stdout) for one in done] == [(2, "")] * 2
    line = "error: session 's' has 5 messages, none from 6 on; give a smaller number\n"
    assert [one.stderr for one in done] == [line] * 2
    assert any("u-6" in line for line in child.stdout)


async def test_long_texts_are_cut(path, run):
    await say(path, user("u", "\n".join([f"line {at}" for at in range(1_000)])))

    short, full = run("show", "agent.db", "s"), run("show", "agent.db", "s", "--full")

    assert short.endswith("      line 5\n      … 994 more lines\n")
    assert full.endswith("      line 998\n      line 999\n")


async def test_the_beginning_of_an_id_is_enough(path, run):
    await say(path, user("u"), session_id="3f9a")
    await say(path, user("v"), session_id="4f9a")

    text = run("show", "agent.db", "3")

    assert text.startswith("session 3f9a ")


async def test_stored_text_cannot_steer_terminals(path, run):
    evil = "\x1b]0;owned\x07\x9b"
    call = ToolCall(id=evil, name=f"do{evil}", arguments={evil: evil})
    asking = AssistantMessage(id="a", content=evil, tool_calls=(call,))
    await say(path, user(f"u{evil}", evil), asking, session_id=f"s{evil}")

    shown = run("show", "agent.db", "s", "--full") + run("sessions", "agent.db")
    explained = run("explain", "agent.db", "a") + run("explain", "agent.db", "--call", evil)
    as_json = run("show", "agent.db", "s", "--json") + run("explain", "agent.db", "a", "--json")

    assert "]0;owned" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown + explained + as_json)
    assert json.loads(as_json.splitlines()[1])["message"]["content"] == evil


async def test_a_damaged_message_hides_no_other(path, run):
    await say(path, user("u-1"), user("u-2"), user("u-3"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE messages SET body = '{' WHERE seq = 2")

    text = run("show", "agent.db", "s")

    assert re.findall(r"u-\d|message 2 is damaged", text) == ["u-1", "message 2 is damaged", "u-3"]


async def test_programs_get_every_record(path, run):
    await talk(path)

    head, *lines = map(json.loads, run("show", "agent.db", "s-1", "--json").splitlines())

    async with SqliteStore(path, read_only=True) as store:
        messages, records = await store.read("s-1"), await store.records("s-1")
    assert (head["kind"], head["id"]) == ("session", "s-1")
    told = [line["message"] for line in lines if line["kind"] == "message"]
    assert told == [json.loads(encode(one)) for one in messages]
    told = [line["record"] for line in lines if line["kind"] == "record"]
    assert told == [json.loads(encode(one)) for one in records]
    kinds = [line["kind"] for line in lines]
    assert kinds.index("message") < len(kinds) - kinds[::-1].index("record")


# --- following ------------------------------------------------------------------------------------


async def test_new_messages_appear_while_following(path, follow, environment):
    await say(path, user("first"))
    child = follow("agent.db", "s")
    until(child, "first")

    for name in ("second", "third"):
        subprocess.run([sys.executable, "-c", WRITER, path, name], env=environment, check=True)

        assert re.match(rf" +\d  user +{name}", until(child, name))
        assert "said elsewhere" in child.stdout.readline()


async def test_following_ends_with_ctrl_c(path, follow):
    await say(path, user("first"))
    child = follow("agent.db", "s")
    until(child, "first")

    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)

    assert (child.returncode, errors) == (130, "\ntoolbus: interrupted\n")


async def test_following_ends_with_its_reader(path, follow):
    await say(path, user("first"))
    child = follow("agent.db", "s")
    until(child, "first")

    child.stdout.close()

    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == ""


# --- paging ---------------------------------------------------------------------------------------


async def test_a_terminal_gets_the_pager(path, run, environment):
    await say(path, user("u"))
    environment |= {"NO_COLOR": "1", "PAGER": "sed s/^/paged:/"}

    def on_terminal(*more):
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "toolbus", "show", path, "s", *more]
        subprocess.run(words, env=environment, stdout=theirs, check=True)
        os.close(theirs)
        written = os.read(ours, 65_536).decode()
        os.close(ours)
        return {line.startswith("paged:") for line in written.splitlines()}

    assert on_terminal() == {True}
    assert on_terminal("--no-pager") == {False}
    assert "paged" not in run("show", "agent.db", "s")


# --- a life ---------------------------------------------------------------------------------------


def sections(text):
    """Return the text below each heading of an explanation."""
    head, *parts = text.split("\n\n")
    return {"": head} | dict(part.split("\n", 1) for part in parts)


def told(text):
    """Return an explanation by its headings, without times and with single spaces."""
    plain = re.sub(r" +(all )?[\d.,]+ [mµ]s$", "", text, flags=re.MULTILINE)
    return {
        heading: [re.sub(r" {2,}", "  ", line.strip()) for line in body.splitlines()]
        for heading, body in sections(plain).items()
    }


async def test_a_call_s_history_is_printed(path, run):
    await talk(path)

    text = run("explain", "agent.db", "--call", "call-2")

    life = told(text)
    assert life[""] == ["tool message id-5  session s-1, message 4", "answers call call-2: ok"]
    assert re.search(r"call-2: ok +0 µs\n", text)
    assert life["as the model asked"] == ['read {"path":"./x/../log"}  in message ask']
    assert life["as it ran"] == ['read {"path":"log"}']
    ran = life["tool:call:before: changed"]
    assert ran[0] == "· Cut  transformer  201  ran"
    assert ran[1] == "~ normalise  transformer  100  changed arguments: 74 → 67 bytes"
    assert ran[3:] == ["· inside  guard  100  ran", "· late  guard  7  ran"]
    assert re.search(r"· late .* ran +\d+ µs\n", text)
    cut = life["message:append:before: changed"][0]
    assert cut == "~ Cut  transformer  50  changed tool_response: 338 → 318 bytes"
    assert life["as it was stored"] == ["all is ****"]
    assert life["as the model read it"][0].startswith("318 bytes, digest ")


async def test_idle_handlers_have_a_reason(path, run):
    def wire(agent):
        agent.on(events.TOOL_CALL_BEFORE, late, name="never", when=lambda ctx: False)

    await talk(path, wire=wire)

    life = told(run("explain", "agent.db", "--call", "call-1"))

    assert life[""][1] == "answers call call-1: denied"
    assert life["as it ran"] == ["it did not run"]
    passage = life["tool:call:before: denied"]
    assert passage[1:3] == [
        "· never  transformer  100  skipped",
        "another sender, a false `when`, or disabled",
    ]
    assert passage[3:] == [
        "✗ inside  guard  100  denied",
        "only inside the project",
        "· late  guard  7  not run",
        "inside had ended the dispatch: denied",
    ]


async def test_without_originals_sizes_are_printed(path, run):
    await talk(path)

    text = run("explain", "agent.db", "id-5")

    assert "qzxj" not in text
    changed, digests = told(text)["message:append:before: changed"]
    assert changed.endswith("changed tool_response: 338 → 318 bytes")
    assert re.fullmatch(r"digest [0-9a-f]{12} → [0-9a-f]{12}", digests)
    answer = told(text)["as the tool answered"][0]
    assert re.fullmatch(r"338 bytes, digest \w{12}; the session keeps no originals", answer)


async def test_originals_show_the_difference(path, run):
    await talk(path, keep_originals=True)

    life = told(run("explain", "agent.db", "id-5"))

    assert life["tool:call:before: changed"][2:4] == ["arguments.path", "./x/../log  │ log"]
    assert life["message:append:before: changed"][1:] == [
        "tool_response.content[0].text",
        "all is well, the secret is qzxj  │ all is well",
    ]
    assert life["as the tool answered"] == ["all is well, the secret is qzxj"]


async def test_operators_get_the_detail(path, run):
    def wire(agent):
        agent.guard(
            events.TOOL_CALL_BEFORE, lambda ctx: Deny("no", "rule 17"), name="ruled", priority=900
        )

    await talk(path, session_id="kept", wire=wire, keep_originals=True)
    await talk(path, session_id="bare", wire=wire)

    kept, bare = (
        run("explain", "agent.db", "--call", "call-1", "--session", session)
        for session in ("kept", "bare")
    )

    ruled = told(kept)["tool:call:before: denied"]
    at = ruled.index("✗ ruled  guard  900  denied")
    assert ruled[at + 1 : at + 3] == ["no", "for operators: rule 17"]
    assert "rule 17" not in bare


async def test_retries_and_early_releases_are_printed(path, run):
    answer = AssistantMessage(id="a-1", content="All is well.", metadata={"retries": 2})
    async with (
        SqliteStore(path) as store,
        Agent(ScriptedModel([answer]), store=store, session_id="s") as agent,
    ):

        @agent.on(events.MESSAGE_APPEND_BEFORE, roles="assistant", incremental=True)
        def all_but_a_word(ctx):
            if ctx.window:
                ctx.window.release(ctx.window.text.rpartition(" ")[0])

        [item async for item in agent.stream("hi")]

    life = told(run("explain", "agent.db", "a-1"))

    assert life["model:call:after: observed"] == ["the request was repeated 2 times"]
    note, handler, released = life["model:call:delta: observed"]
    assert note == "shown before the answer was complete"
    assert "all_but_a_word" in handler
    assert released == "released 6 characters"


async def test_store_and_model_may_differ(path, run):
    await talk(path, keep_originals=True)

    differs, same = (
        told(run("explain", "agent.db", "id-5")),
        told(run("explain", "agent.db", "id-4")),
    )

    assert differs["as it was stored"] == ["all is ****"]
    note = "a resumed session reads the stored version"
    assert differs["as the model read it"] == ["all is well", note]
    assert same["as it was stored"] == ["only inside the project"]
    assert same["as the model read it"] == ["as it was stored"]


async def test_a_changed_request_is_printed(path, run):
    def wire(agent):
        @agent.on(events.MODEL_CALL_BEFORE)
        def first_only(ctx):
            (message, *_) = ctx.value.messages
            return events.ModelRequest(
                model=ctx.value.model, messages=(user(message.id, "be brief"),)
            )

    await talk(path, wire=wire)

    life = told(run("explain", "agent.db", "id-3"))

    (heading,) = [one for one in life if one.startswith("model:call:before: changed")]
    assert life[heading][0].startswith("~ ")
    assert "first_only" in life[heading][0]
    assert "messages" in life[heading][0]


async def test_a_refused_message_is_explained(path, run):
    async def outer(context: ToolContext) -> str:
        return (await context.call("read", {"path": "inner"})).text

    def polite(ctx):
        return Deny("no such talk") if ctx.value.id == "bad" else None

    seen = {}
    async with (
        SqliteStore(path) as store,
        Agent(ScriptedModel([]), tools=[read, outer], store=store, session_id="s") as agent,
    ):
        agent.guard(events.MESSAGE_APPEND_BEFORE, polite)
        agent.on(
            events.TOOL_CALL_BEFORE,
            lambda ctx: seen.update({ctx.value.name: ctx.value.id}),
            name="watch",
        )
        with pytest.raises(MessageDenied):
            await agent.append(user("bad", "forbidden"))
        await agent.call_tool("outer")

    message = told(run("explain", "agent.db", "bad"))
    call = told(run("explain", "agent.db", "--call", seen["read"][:-1]))

    assert message[""] == ["refused message bad  session s"]
    assert "no such talk" in message["message:append:before: denied"]
    assert message["as it was stored"] == ["nothing: it is in no message"]
    assert call[""][0] == f"call {seen['read']}  session s"
    assert call["as the model asked"] == [
        "not in a message: a call inside another call, or of a program"
    ]
    assert call["tool:call:before: unchanged"] == ["· watch  transformer  100  ran"]


async def test_calls_with_one_id_are_distinguished(path, run):
    def asks(at):
        call = ToolCall(id="same", name="read", arguments={"path": f"./{at}"})
        return AssistantMessage(id=f"ask-{at}", tool_calls=(call,))

    def wire(agent):
        agent.on(events.TOOL_CALL_PERSIST_AFTER, late, name="seen")

    await talk(path, [*map(asks, range(1, 31)), "done"], wire=wire)

    async with SqliteStore(path, read_only=True) as store:
        answers = [each for each in await store.read("s-1") if each.role == "tool"]
    first, last = (
        told(run("explain", "agent.db", answer.id, "--session", "s-1"))
        for answer in (answers[0], answers[-1])
    )
    same = told(run("explain", "agent.db", "--call", answers[-1].tool_call_id))

    assert first["as the model asked"] == ['read {"path":"./1"}  in message ask-1']
    assert last["as the model asked"] == ['read {"path":"./30"}  in message ask-30']
    for life in (first, last):
        assert len(life["tool:call:before: changed"]) == 5
        assert life["tool:call:persist:after: observed"] == ["· seen  observer  100  ran"]
    assert same == last


async def test_programs_get_the_history(path, run):
    await talk(path, keep_originals=True)

    life = json.loads(run("explain", "agent.db", "--call", "call-2", "--json"))

    assert (life["session"], life["id"], life["role"], life["seq"]) == ("s-1", "id-5", "tool", 4)
    assert life["call"]["asked"]["arguments"] == {"path": "./x/../log"}
    assert life["call"]["ran"]["arguments"] == {"path": "log"}
    assert (life["call"]["status"], life["call"]["asked_in"]) == ("ok", "ask")
    names = [one["event"] for one in life["passages"]]
    assert names == ["tool:call:before", "message:append:before", "message:persist:before"]
    (step,) = [one for one in life["passages"][0]["steps"] if one["status"] == "changed"]
    assert (step["name"], step["fields"]) == ("normalise", ["arguments"])
    assert step["before"]["value"]["arguments"] == {"path": "./x/../log"}
    assert step["after"]["value"]["arguments"] == {"path": "log"}
    assert "qzxj" in json.dumps(life["returned"]["value"])
    assert life["stored"]["tool_response"]["content"][0]["text"] == "all is ****"
    assert life["read"]["value"]["tool_response"]["content"][0]["text"] == "all is well"


# --- the file -------------------------------------------------------------------------------------


async def test_the_file_stays_as_it_is(path, run):
    await talk(path, keep_originals=True)
    before = files(path)

    run("sessions", "agent.db")
    run("show", "agent.db", "s-1")
    run("explain", "agent.db", "ask")

    assert files(path) == before
    assert list(before) == ["agent.db"]


@pytest.mark.parametrize("words", [["sessions"], ["show", "s"], ["explain", "m"], ["forget", "s"]])
async def test_other_files_are_explained(path, refusal, words):
    name, *more = words
    (path.parent / "text.db").write_text("no database at all\n" * 100)
    await say(path, user("u"))
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")

    files = (("none.db", 2), ("text.db", 2), ("agent.db", 2))
    reasons = [refusal(name, file, *more, code=code) for file, code in files]

    assert reasons[0] == "store 'none.db': there is no such file; give the path of a store"
    assert "not an SQLite database" in reasons[1]
    assert "version 99 is newer than" in reasons[2]


async def test_unknown_ids_name_the_nearest(path, refusal):
    await talk(path, session_id="session-1")

    assert "did you mean 'session-1'?" in refusal("show", "agent.db", "sesion-1")
    assert "did you mean 'id-4'?" in refusal("explain", "agent.db", "id-44")
    assert "did you mean 'call-1'?" in refusal("explain", "agent.db", "--call", "call_1")
    assert refusal("explain", "agent.db", "--call", "zzz").startswith("no call 'zzz'; `toolbus sh")
    assert refusal("show", "agent.db", "zzz") == "no session 'zzz'; see `toolbus sessions`"


async def test_ambiguous_ids_are_refused(path, refusal, run):
    await talk(path, session_id="s-1")
    await talk(path, session_id="s-2")

    message, call = refusal("explain", "agent.db", "ask"), ("explain", "agent.db", "--call=call-1")

    assert message == "message 'ask' is in 2 sessions ('s-1', 's-2'); add --session"
    assert refusal(*call) == "call 'call-1' is in 2 sessions ('s-1', 's-2'); add --session"
    assert "session s-2, message 3" in run(*call, "--session", "s-2")
    await say(path, user("only"), session_id="s-1")
    elsewhere = refusal("explain", "agent.db", "only", "--session", "s-2")
    assert elsewhere.startswith("no message 'only' in session 's-2'; ")
    told = "begins 2 sessions ('s-1', 's-2'); give more of the id"
    assert refusal("show", "agent.db", "s") == f"'s' {told}"
    message = refusal("explain", "agent.db", "id-", "--session", "s-1")
    assert message == "'id-' begins 3 messages ('id-3', 'id-4', 'id-5'); give more of the id"


async def test_wrong_use_says_what_is_missing(path, refusal, command):
    await talk(path)

    for words in ([], ["ask", "--call", "call-1"]):
        told = "give one message id, or `--call` or `--sources` and the id of a call"
        assert refusal("explain", "agent.db", *words) == told
    hint = "'call-1' is the id of a call; use `--call call-1`"
    assert refusal("explain", "agent.db", "call-1") == hint
    done = command("show", "agent.db", "s-1", "--from", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a number from 1 up, got '0'" in done.stderr


# --- forgetting -----------------------------------------------------------------------------------


async def test_forgotten_values_are_in_no_file(path, run):
    await talk(path, keep_originals=True)
    assert b"qzxj" in b"".join(files(path).values())
    before = run("show", "agent.db", "s-1")

    text = run("forget", "agent.db", "s-1")
    again = json.loads(run("forget", "agent.db", "s-1", "--json"))

    assert text == "6 originals of session s-1 deleted; its messages and records stay\n"
    assert again == {"session": "s-1", "forgotten": 0}
    assert b"qzxj" not in b"".join(files(path).values())
    assert run("show", "agent.db", "s-1") == before
    assert "originals" not in run("sessions", "agent.db")

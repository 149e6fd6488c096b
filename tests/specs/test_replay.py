"""The scenarios of `specs/replay.md`."""

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from textwrap import dedent

import pytest

from toolbus import (
    Agent,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

IMPORTS = """\
from pathlib import Path
from toolbus import (
    Agent, AgentComponent, Ask, Deny, EventBus, ToolAdapter, ToolResponse, events, guard, on,
)
from toolbus.models.scripted import ScriptedModel
"""
SECRET = "hunter2"


@pytest.fixture
def here(tmp_path, environment):
    return tmp_path / "here"


@pytest.fixture
def policy(here):
    """Return a function that writes the file of handlers."""

    def write(text, name="policy.py"):
        # A file with a bus and a component would have to say which of them is meant.
        bus = "" if "Rules" in text or "agent" in text else "bus = EventBus()\n"
        (here / name).write_text(IMPORTS + bus + dedent(text))
        return name

    return write


@pytest.fixture
def recording(here):
    """Return a function that writes messages as an export of one session."""

    def write(*messages, name="log.jsonl", session="s"):
        lines = [HeaderLine(), SessionLine(id=session)]
        lines += [MessageLine(message=one) for one in messages]
        lines.append(EndLine(messages=len(messages), records=0))
        (here / name).write_bytes(b"".join(map(encode_line, lines)))
        return name

    return write


@pytest.fixture
def replay(command):
    """Return a function that replays with `--json` and returns the document."""

    def run(*arguments):
        done = command("replay", *arguments, "--json")
        assert done.returncode in {0, 1}, done.stderr
        return json.loads(done.stdout)

    return run


def called(name="bash", call_id="c1", text="done", **arguments):
    """Return the messages of one call and its result."""
    call = ToolCall(id=call_id, name=name, arguments=arguments)
    answer = AssistantMessage(id=f"a-{call_id}", tool_calls=(call,))
    response = ToolResponse.from_text(text)
    return answer, ToolMessage(
        id=f"t-{call_id}", tool_call_id=call_id, tool_name=name, tool_response=response
    )


DENYING = """
    def no_deleting(ctx):
        return Deny("no deleting") if "rm" in str(ctx.value.arguments) else None
    bus.guard(events.TOOL_CALL_BEFORE, no_deleting)
"""
REDACTING = f"""
    class Hide(ToolAdapter):
        def adapt_response(self, response, call):
            return response.map_text(lambda text: text.replace("{SECRET}", "[hidden]"))
    class Rules(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Hide())
"""


def test_a_denied_call_says_why(policy, recording, command, replay):
    log = recording(*called(command="rm -r x"))

    done = command("replay", log, "--with", policy(DENYING))

    (finding,) = replay(log, "--with", "policy.py")["findings"]
    assert (finding["role"], finding["subject"], finding["outcome"]) == ("call", "c1", "denied")
    assert (finding["reason"], finding["reads"]) == ("no deleting", "no deleting")
    assert finding["by"] == ["no_deleting"]
    assert "denied    call bash c1" in done.stdout
    assert "1 session, 2 messages, 1 call" in done.stdout


LIVE = """
    class Shorten(ToolAdapter):
        priority = 200
        def adapt_response(self, response, call):
            return response.map_text(lambda text: text[:30])
    class Hide(ToolAdapter):
        def adapt_response(self, response, call):
            return response.map_text(lambda text: text.replace("password", call.arguments["mark"]))
    class Fails(ToolAdapter):
        tools = "broken"
        def adapt_response(self, response, call):
            raise ValueError("no")
    class Rules(AgentComponent):
        def __init__(self):
            for one in (Hide(), Shorten(), Fails()):
                self.register_tool_adapter(one)
        @on(events.MESSAGE_APPEND_BEFORE, priority=20)
        def late(self, ctx):
            if ctx.value.role == "tool":
                return ctx.value.with_tool_response(
                    ctx.value.tool_response.map_text(str.upper)
                )
"""


def fetch(mark: str) -> str:
    return "the password is long, and then there is the password again"


def broken(mark: str) -> str:
    return "the password"


async def live(components):
    calls = [ToolCall(id=name, name=name, arguments={"mark": "*"}) for name in ("fetch", "broken")]
    model = ScriptedModel([AssistantMessage(id="a", tool_calls=tuple(calls)), "done"])
    async with Agent(model, tools=[fetch, broken], components=components) as agent:
        await agent.run("go")
    return list(agent.messages)


def test_results_are_adapted_as_in_a_live_run(policy, recording, replay, here):
    names = {}
    exec(compile((here / policy(LIVE)).read_text(), "policy", "exec"), names)
    read = {
        one.tool_name: one.text
        for one in asyncio.run(live([names["Rules"]()]))
        if one.role == "tool"
    }
    log = recording(*asyncio.run(live([])))

    found = replay(log, "--with", "policy.py")

    changes = {
        finding["tool"]: change["after"]
        for finding in found["findings"]
        for change in finding["changes"]
        if change["path"] == "tool_response.content[0].text"
    }
    assert changes == read


def test_adapters_get_the_rebuilt_call(policy, recording, replay):
    rules = policy("""
        class Tell(ToolAdapter):
            def adapt_response(self, response, call):
                return response.with_text(f"{call.name} {dict(call.arguments)}")
        class Rules(AgentComponent):
            def __init__(self):
                self.register_tool_adapter(Tell())
            @on(events.TOOL_CALL_BEFORE)
            def rewrite(self, ctx):
                return ctx.value.merge_arguments({"safe": True})
    """)

    _, told = replay(recording(*called(path="x")), "--with", rules)["findings"]

    assert told["changes"][0]["after"] == "bash {'path': 'x', 'safe': True}"


def test_a_question_is_reported_not_asked(policy, recording, replay, here):
    rules = policy("""
        def approve(ask, call, scope):
            Path("asked").touch()
        agent = Agent(ScriptedModel([]), approver=approve)
        agent.guard(events.TOOL_CALL_BEFORE, lambda ctx: Ask("really?"), name="careful")
    """)

    (finding,) = replay(recording(*called()), "--with", rules)["findings"]

    assert (finding["outcome"], finding["reason"], finding["by"]) == (
        "asked",
        "really?",
        ["careful"],
    )
    assert not (here / "asked").exists()


def test_an_answer_replaces_the_result(policy, recording, replay):
    rules = policy("""
        @bus.on(events.TOOL_CALL_BEFORE)
        def cached(ctx):
            return ToolResponse.from_text("from the cache")
        @bus.on(events.MESSAGE_APPEND_BEFORE)
        def shout(ctx):
            if ctx.value.role == "tool":
                return ctx.value.with_tool_response(ctx.value.tool_response.map_text(str.upper))
    """)

    answered, shouted = replay(recording(*called()), "--with", f"{rules}:bus")["findings"]

    assert (answered["outcome"], answered["reads"]) == ("answered", "from the cache")
    assert shouted["changes"][0]["before"] == "from the cache"
    assert shouted["changes"][0]["after"] == "FROM THE CACHE"


@pytest.mark.parametrize(
    ("on_error", "outcome"), [("open", "failed"), ("closed", "denied"), ("raise", "raised")]
)
def test_policies_decide_about_failures(on_error, outcome, policy, recording, replay):
    rules = policy(f"""
        @bus.on(events.TOOL_CALL_BEFORE, on_error="{on_error}")
        def breaks(ctx):
            raise ValueError("no")
    """)

    (finding,) = replay(recording(*called()), "--with", rules)["findings"]

    assert finding["outcome"] == outcome
    assert finding["by"][0].startswith("breaks")


def test_a_denied_result_shows_its_replacement(policy, recording, replay):
    rules = policy(f"""
        @bus.guard(events.MESSAGE_APPEND_BEFORE)
        def judge(ctx):
            return Deny("it has a secret") if "{SECRET}" in ctx.value.text else None
    """)

    (finding,) = replay(recording(*called(text=SECRET)), "--with", rules)["findings"]

    assert (finding["role"], finding["outcome"]) == ("tool", "denied")
    assert finding["reads"] == "it has a secret"
    assert SECRET not in json.dumps(finding)


def test_a_recorded_denial_may_be_permitted(policy, recording, replay):
    answer, result = called(command="rm x")
    refusal = ToolResponse.from_text("no", is_error=True, error_type="denied")
    log = recording(answer, result.with_tool_response(refusal))

    (permitted,) = replay(log, "--with", policy("", "empty.py"))["findings"]
    (denied,) = replay(log, "--with", policy(DENYING))["findings"]

    assert (permitted["role"], permitted["outcome"]) == ("call", "permitted")
    assert denied["outcome"] == "denied"


def test_a_hidden_value_cannot_be_judged(policy, recording, replay):
    log = recording(*called(command="rm [email-3]"), *called(call_id="c2", command="rm [a-z0-9]"))
    rules = policy("""
        calls = []
        bus.on(events.TOOL_CALL_BEFORE, lambda ctx: calls.append(ctx.value))
        bus.guard(events.TOOL_CALL_BEFORE, lambda ctx: Deny(f"call {len(calls)}"))
    """)

    result = replay(log, "--with", rules)

    hidden, plain = result["findings"]
    assert (hidden["outcome"], hidden["reason"]) == (
        "unjudged",
        "`command` was hidden in the recording",
    )
    assert not {"by", "reads", "changes"} & {*hidden}
    assert (plain["outcome"], plain["reason"]) == ("denied", "call 1")
    assert result["totals"]["outcomes"] == {"unjudged": 1, "denied": 1}


def test_a_person_s_refusal_is_reported(policy, recording, replay):
    answer, result = called(command="rm x")
    words = "the person refused this call: not on Friday"
    refusal = ToolResponse.from_text(words, is_error=True, error_type="denied")
    log = recording(answer, result.with_tool_response(refusal))

    (refused,) = replay(log, "--with", policy("", "empty.py"))["findings"]

    assert (refused["outcome"], refused["reason"]) == (
        "refused",
        "a person said no in the recording",
    )


def test_a_policy_s_file_is_a_target(here, recording, replay):
    rules = 'default = "allow"\n[[rule]]\nname = "no rm"\nverdict = "deny"\ncommand = "rm"\n'
    (here / "policy2.toml").write_text(rules)

    result = replay(recording(*called(command="rm x")), "--with", "policy2.toml")

    (denied,) = result["findings"]
    assert (result["target"], denied["outcome"]) == ("policy2.toml", "denied")
    assert "rule 'no rm'" in denied["by"]


def test_no_tool_and_no_model_runs(policy, recording, command, here):
    rules = policy("""
        def bash(command: str) -> str:
            Path("ran").touch()
        class Model(ScriptedModel):
            async def complete(self, request):
                Path("ran").touch()
        agent = Agent(Model([]), tools=[bash])
    """)

    done = command("replay", recording(*called(command="ls")), "--with", rules)

    assert (done.returncode, done.stderr) == (0, "")
    assert not (here / "ran").exists()


def test_handlers_left_out_are_named(policy, recording, command):
    rules = policy("""
        class Rules(AgentComponent):
            @guard(events.RUN_BEFORE)
            def judge(self, ctx): ...
    """)

    done = command("replay", recording(*called()), "--with", rules)

    assert "not replayed: the handlers of run:before" in done.stdout


def test_no_handler_changes_nothing(policy, database, command):
    done = command("replay", database, "--with", policy(""))

    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing would change" in done.stdout


@pytest.fixture
def database(here):
    """Return a store with three messages in each of two sessions."""

    async def write():
        async with SqliteStore(here / "agent.db") as store:
            for session in ("one", "two"):
                for message in (
                    SystemMessage(id=f"{session}-m", content="Help."),
                    *called(call_id=f"{session}-c", text=f"first\nthe {SECRET}\nlast"),
                ):
                    await store.append(session, AppendRequest(message=message))

    asyncio.run(write())
    return "agent.db"


def test_a_changed_text_shows_its_difference(policy, database, command):
    done = command("replay", database, "--with", policy(REDACTING))

    block = [line.strip() for line in done.stdout.split("session one\n")[1].splitlines()]
    assert re.search(rf"(- )?the {SECRET} +│ the \[hidden\]", "\n".join(block))
    assert "first" not in block
    assert "1 changed" in block


def test_json_is_one_document(policy, recording, command):
    rules = policy(DENYING + "    bus.on(events.TOOL_CALL_BEFORE, lambda ctx: print('hello'))\n")

    done = command("replay", recording(*called(command="rm")), "--with", rules, "--json")

    document = json.loads(done.stdout)
    assert len(document["findings"]) == 1
    assert document["totals"]["outcomes"] == {"denied": 1}
    assert document["totals"]["calls"] == 1


def test_one_session_may_be_chosen(policy, database, replay):
    found = replay(database, "--with", policy(REDACTING), "--session", "two")

    assert {finding["session"] for finding in found["findings"]} == {"two"}
    assert found["totals"]["messages"] == 3


def test_every_source_gives_the_same_findings(policy, database, command, replay):
    command("export", database, "-o", "all.jsonl")

    found = [replay(one, "--with", policy(REDACTING)) for one in (database, "all.jsonl")]

    assert found[0] == found[1]
    assert found[0]["totals"]["outcomes"] == {"changed": 2}


def test_standard_input_is_a_source(policy, environment, here):
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    words = [sys.executable, "-m", "toolbus", "replay", "-", "--with", policy("")]

    done = subprocess.run(
        words, input=line, cwd=here, env=environment, capture_output=True, text=True, check=False
    )

    assert "1 session, 1 message, 0 calls" in done.stdout


def test_a_folder_stands_for_its_files(policy, recording, replay, here):
    (here / "logs" / "below").mkdir(parents=True)
    line = {"type": "user", "sessionId": "S", "uuid": "u", "message": {"content": "hi"}}
    (here / "logs" / "cc.jsonl").write_text(json.dumps(line))
    (here / "logs" / "below" / "chat.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "x"}]}'
    )
    recording(*called(), name="logs/ours.jsonl")
    (here / "logs" / "notes.txt").write_text("notes")

    found = replay("logs", "--with", policy(""))

    assert found["totals"]["sessions"] == 3
    assert found["left_aside"] == {"other file": 1}


def test_unreadable_lines_are_named_and_counted(policy, recording, command, here):
    log = here / recording(*called())
    good = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*good[:2], b"{]\n", b'{"type":"message","message":{}}\n', *good[2:]]))

    done = command("replay", log.name, "--with", policy(""))

    assert done.returncode == 1
    assert "log.jsonl:3 cannot be read: " in done.stderr
    assert "log.jsonl:4 cannot be read: " in done.stderr
    assert "2 lines could not be read" in done.stdout
    assert "1 session, 2 messages, 1 call" in done.stdout


def test_a_damaged_row_is_named(policy, database, command, here):
    with closing(sqlite3.connect(here / database)) as connection:
        connection.execute("UPDATE messages SET body = '{' WHERE id = 'one-m'")
        connection.commit()

    done = command("replay", database, "--with", policy(""))

    assert done.returncode == 1
    assert "message 1 of session 'one' is damaged" in done.stderr
    assert "2 sessions, 5 messages, 2 calls" in done.stdout


def test_a_missing_source_is_a_usage_error(policy, command, here):
    done = command("replay", "nowhere.jsonl", "--with", policy(""))

    assert done.returncode == 2
    assert "there is no file 'nowhere.jsonl'; give a file, a folder, or -" in done.stderr
    (here / "empty").mkdir()
    empty = command("replay", "empty", "--with", policy(""))
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "nothing to replay in 'empty'; expected a file of .db, .jsonl, " in empty.stderr


def test_an_unreadable_source_is_counted_as_a_source(policy, recording, command, here):
    with closing(sqlite3.connect(here / "foreign.db")) as connection:
        connection.execute("CREATE TABLE cats (name)")
        connection.commit()
    words = ("--with", policy(""))

    alone = command("replay", "foreign.db", *words)
    both = command("replay", "foreign.db", recording(*called()), *words)

    assert (alone.returncode, both.returncode) == (1, 1)
    assert alone.stdout.endswith("nothing was replayed\n1 source could not be read\n")
    assert both.stdout.endswith("nothing would change\n1 source could not be read\n")
    assert (
        "foreign.db cannot be read: store 'foreign.db': the database is of another" in alone.stderr
    )


def test_an_expectation_holds_until_handlers_change(policy, recording, command):
    log = recording(*called(command="rm x"))
    check = ("replay", log, "--check", "expected.json", "--with")
    written = command(*check, policy(DENYING), "--update")

    same, other = command(*check, "policy.py"), command(*check, policy("", "other.py"))

    assert [written.returncode, same.returncode, other.returncode] == [0, 0, 1]
    assert "as expected in expected.json" in same.stdout
    assert "not as expected in expected.json" in other.stdout
    assert "- call bash c1 denied" in other.stdout


def test_an_expectation_is_the_same_each_time(policy, database, command, here):
    for name in ("a.json", "b.json"):
        done = command("replay", database, "--with", policy(REDACTING), "--check", name, "--update")
        assert done.returncode == 0

    assert (here / "a.json").read_bytes() == (here / "b.json").read_bytes()


def test_removed_text_is_in_no_expectation(policy, database, command, here):
    command("replay", database, "--with", policy(REDACTING), "--check", "a.json", "--update")

    text = (here / "a.json").read_text()
    assert "[hidden]" in text
    assert SECRET not in text


def test_a_missing_expectation_is_a_usage_error(policy, recording, command, here):
    log = recording(*called())
    (here / "none.json").write_text("{}")

    done = [
        command("replay", log, "--with", policy(""), "--check", one) for one in ("no", "none.json")
    ]

    assert [one.returncode for one in done] == [2, 2]
    assert all("--update" in one.stderr for one in done)


MEASURED = r"""
import re, resource, sys
from pathlib import Path
from toolbus.cli import main
code = main(["replay", sys.argv[1], "--with", "policy.py", "--json"])
status = Path("/proc/self/status")
if status.exists():
    # What `getrusage` tells here includes the parent's memory, from before the program began.
    used = int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
else:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(used, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.full
def test_memory_does_not_grow_with_the_input(policy, environment, here):
    policy(
        LIVE.replace('tools = "broken"', 'tools = "none"').replace('call.arguments["mark"]', '"*"')
    )
    used = []
    for times in (400, 4_000):
        with (here / "long.jsonl").open("wb") as stream:
            stream.write(encode_line(SessionLine(id="s")))
            for at in range(times):
                stream.write(
                    encode_line(MessageLine(message=UserMessage(id=f"u{at}", content="x" * 2_000)))
                )
                for message in called(call_id=f"c{at}", text="the password " * 200):
                    stream.write(encode_line(MessageLine(message=message)))
            stream.write(encode_line(EndLine(messages=times * 3, records=0)))
        words = [sys.executable, "-c", MEASURED, "long.jsonl"]
        done = subprocess.run(
            words, cwd=here, env=environment, capture_output=True, text=True, check=False
        )
        assert json.loads(done.stdout)["totals"]["outcomes"] == {"changed": times}
        used.append(int(done.stderr) / 2**20)

    assert max(used) < 150
    assert used[1] - used[0] < 5

"""The command that lists and answers questions; see `specs/approvals_command.md`."""

import asyncio
import json
import os
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from tests.servers.terminal import Terminal, without_agents

from toolbus import Ask, EventBus, Scope, ToolMessage, ToolRunner, Toolset, tool
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.questions import PREFIX
from toolbus.approvals.records import questions_of
from toolbus.cli.command_line import main
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.messages.codec import encode
from toolbus.store import AppendRequest, SqliteStore, open_store
from toolbus.store.leases import this_process
from ui_questions import HOUR, now, question

PROMPT = "approve? [y, n] "


@pytest.fixture
def path(tmp_path):
    (tmp_path / "here").mkdir(exist_ok=True)
    return tmp_path / "here" / "s.db"


@pytest.fixture
def terminal(tmp_path, environment):
    """Return a function that runs `toolbus approvals` on a terminal."""

    def run(*arguments, columns=80):
        plain = environment | {"NO_COLOR": "1"}
        words = ["approvals", *arguments]
        return Terminal(words, cwd=tmp_path / "here", env=plain, columns=columns)

    return run


@pytest.fixture
def approvals(capsys, monkeypatch, tmp_path):
    """Return a function that runs `toolbus approvals` in this process; it gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = main(["approvals", *map(str, arguments)])
        return Done(code, *capsys.readouterr())

    return run


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def keep(path, *questions, messages=()):
    """Put *questions* into the store, and *messages* into session "s"."""

    async def run():
        async with SqliteStore(path) as store:
            for message in messages:
                await store.append("s", AppendRequest(message=message))
            for each in questions:
                await store.swap_state(each.session_id, PREFIX + each.id, None, encode(each))

    asyncio.run(run())


def kept(path, session="s"):
    """Return the questions of a session by their ids."""

    async def run():
        async with open_store(path) as store:
            return {each.id: each for each in await questions_of(store, session)}

    return asyncio.run(run())


def pay(address, amount, effects):
    """Call the tool `pay` as a program of its own would; return the outcome."""
    bus = EventBus()
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        return "paid"

    async def run():
        async with open_store(address) as store:
            scope = Scope(agent_id="main", session_id="s")
            approvals = StoredApprovals(store=store)
            return await ToolRunner(bus, Toolset([pay]), scope, approver=approvals).call(
                "pay", {"amount": amount}
            )

    return asyncio.run(run())


def one_of_each():
    return (
        question("1a", asked_ns=now() - 2, session_id="t"),
        question("2a", state="approved", answered_by="ann", asked_ns=now() - 3),
        question("3a", state="taken", taken_by=f"{this_process()}/x", asked_ns=now() - 1),
        question("4a", state="unknown"),
        question("5a", state="denied", reason="no\x1b[2J", answered_by="bob"),
        question("6a", expires_ns=now() - 1),
        question("7a", state="withdrawn"),
        question("8a", state="done"),
    )


def test_open_questions_are_listed(path, approvals):
    keep(path, *one_of_each())

    listed = approvals("--store", path)
    everything = approvals("list", "--all", "--store", path)

    rows = [row.split() for row in listed.stdout.splitlines()[1:]]
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [
        ("2a", "approved", "pay", "s"),
        ("1a", "pending", "pay", "t"),
        ("3a", "taken", "pay", "s"),
        ("4a", "unknown", "pay", "s"),
    ]
    states = dict(row.split()[:2] for row in everything.stdout.splitlines()[1:])
    assert len(states) == 8
    assert states["6a"] == "expired"
    assert (listed.returncode, everything.returncode) == (0, 0)


def test_json_output_has_one_question_per_line(path, approvals):
    keep(path, *one_of_each())

    lines = approvals("--json", "--all", "--store", path).stdout
    (shown,) = approvals("show", "5", "--json", "--store", path).stdout.splitlines()

    found = {each["id"]: each for each in map(json.loads, lines.splitlines())}
    assert [found[name]["state"] for name in ("1a", "6a")] == ["pending", "expired"]
    assert found["5a"] == json.loads(shown)
    assert (found["5a"]["reason"], found["5a"]["arguments"]) == ("no\x1b[2J", {"amount": 1})
    assert all(line.isprintable() for line in lines.splitlines())


def test_a_question_is_shown_whole(path, approvals):
    text = "ls \u202e\n" + "\n".join(f"line {number}" for number in range(200))
    asked = question("1a", arguments={"text": text}, requested_arguments={"text": "ls"})
    long = "not-before-Monday," * 20
    denied = question("2a", state="denied", answered_by="ann", reason=long)
    keep(path, asked, denied)

    shown = approvals("show", "1", "--store", path)
    verbose = approvals("show", "1", "--verbose", "--store", path).stdout.splitlines()
    refused = approvals("show", "2", "--store", path).stdout.splitlines()

    rows = shown.stdout.splitlines()
    assert r"│ ls \u202e" in rows
    assert rows.count("│ line 199") == 2
    assert "not as the model wrote it; it differs in" in rows
    assert f"digest {asked.digest}" not in rows
    assert f"digest {asked.digest}" in verbose
    assert rows[-1] == verbose[-1] == "state: pending, without an answer"
    assert shown.returncode == 0
    given = refused[refused.index("reason given") + 1 :]
    assert "".join([row.removeprefix("│ ").removeprefix("│…") for row in given]) == long


def gone_process():
    """Return what names a process that has ended."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return f"{this_process().rpartition(':')[0]}:{child}/x"


def test_a_killed_process_is_noticed(path, approvals):
    gone = gone_process()
    taken = [question(name, state="taken", taken_by=gone) for name in ("1a", "2a")]
    answers = [ToolMessage(tool_call_id=f"call-{name}", tool_name="pay") for name in ("2a", "3a")]
    hook = question("3a", state="taken", taken_by=gone, host="codex")
    keep(path, *taken, hook, messages=answers)

    listed = approvals("--all", "--store", path).stdout

    assert dict(row.split()[:2] for row in listed.splitlines()[1:]) == {
        "1a": "unknown",
        "2a": "done",
        "3a": "taken",
    }
    assert {each.state for each in kept(path).values()} == {"taken"}


def test_a_damaged_question_is_reported(path, approvals):
    keep(path, question("1a"), question("2a"), question("3a"))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE states SET body = 'x' WHERE name = 'question:1a'")
        file.execute("UPDATE states SET name = 'question:9a' WHERE name = 'question:3a'")

    listed = approvals("--store", path)
    shown = approvals("show", "1a", "--store", path)

    assert [row.split()[0] for row in listed.stdout.splitlines()[1:]] == ["2a"]
    assert "state 'question:1a' of session 's' is damaged" in listed.stderr
    assert "state 'question:9a' of session 's' says that it is '3a'" in listed.stderr
    assert listed.returncode == 1
    assert (shown.returncode, "is damaged" in shown.stderr) == (2, True)


@pytest.mark.full
def test_new_questions_are_watched(path, terminal):
    keep(path, question("1a"))

    with terminal("--watch", "--store", path) as person:
        person.expect("1a                pending")
        keep(path, question("2a"))
        person.expect("2a                pending")

        async def deny():
            async with SqliteStore(path) as store:
                digest = question("1a").digest
                await answer(store, "1a", digest, approve=False, by="ann")

        asyncio.run(deny())
        between = person.expect("1a                denied")
        person.type("\x03")
        code, rest = person.end()

    assert "2a" not in between
    assert code == 130
    assert "interrupted" in rest


def test_wrong_arguments_are_explained(path, approvals):
    keep(path, question("1a"), question("1b"))

    def refused(*words):
        done = approvals(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        return done.stderr

    assert "no question '2' in this store; see `toolbus approvals --all`" in refused(
        "show", "2", "--store", path
    )
    assert "matches several questions (1a, 1b)" in refused("show", "1", "--store", path)
    assert "no question ''" in refused("show", "", "--store", path)
    assert "there is no such file" in refused("--store", "nowhere.db")
    for unnamed in (refused(), refused("approve", "77")):
        assert "no hook has run yet" in unnamed
        assert unnamed.endswith("; name a store by --store STORE\n")
    assert "such as 90s, 30m or 1h, not '1y'" in refused("approve", "1a", "--for", "1y")
    assert "--ran --never-ran is required" in refused("settle", "1a")
    assert "an option of list and review" in refused("--watch", "grants", "--store", path)


def test_a_yes_lets_the_call_run(path, terminal):
    effects = []
    (name,) = pay(path, 3, effects).pending

    with terminal("approve", name, "--verbose", "--store", path) as person:
        shown = person.expect(PROMPT)
        person.type("y\n")
        code, told = person.end()
    outcome = pay(path, 3, effects)

    done = kept(path)[name]
    assert (code, outcome.status, effects) == (0, "ok", [3])
    assert "│ 3" in shown
    assert f"digest {done.digest}" in shown
    assert f"question {name!r} is approved" in told
    assert f"digest {done.digest}" in told
    assert "`agent.resume()`" in told
    assert (done.state, done.answered_from) == ("done", "terminal")
    assert done.answered_by


def leaf(person, count):
    """Have the first *count* pages shown, and the next; return their text."""
    shown = ""
    for _ in range(count):
        shown += person.expect("q ends: ")
        person.type("\n")
    return shown


def test_all_pages_come_before_the_question(path, terminal):
    asked = question("1a", arguments={"text": "\n".join(f"line {number}" for number in range(80))})
    keep(path, asked)
    codes = []

    wrong = {
        "y\n": "only after the last page",
        "ok\n": "not an answer",
        "?\n": "leave the question pending; ",
    }
    for pages, key in ((1, "y\n"), (1, "q\n"), (3, "\n"), (3, "ok\n"), (3, "?\n")):
        with terminal("approve", "1a", "--store", path) as person:
            leaf(person, pages)
            person.expect(PROMPT if pages == 3 else "q ends: ")
            person.type(key)
            if key in wrong:
                person.expect(wrong[key])
                person.expect(PROMPT if pages == 3 else "q ends: ")
                person.type("\x04")
            codes.append(person.end()[0])
    left = kept(path)["1a"]
    with terminal("approve", "1a", "--store", path) as person:
        shown = leaf(person, 3) + person.expect(PROMPT)
        person.type("yes\n")
        code, _ = person.end()

    assert codes == [1] * 5
    assert left == asked
    assert [f"│ line {number}\n" in shown for number in range(80)] == [True] * 80
    assert "page 4 of 4" in shown
    assert (code, kept(path)["1a"].state) == (0, "approved")


def test_earlier_typing_does_not_count(path, terminal):
    keep(path, question("1a"))

    with terminal("approve", "1a", "--store", path) as person:
        person.type("y\ny\n")
        person.expect(PROMPT)
        waiting = kept(path)["1a"].state
        person.type("n\n")
        code, _ = person.end()

    assert (waiting, code, kept(path)["1a"].state) == ("pending", 1, "pending")


def test_a_reason_reaches_the_model(path, terminal):
    effects = []
    (name,) = pay(path, 3, effects).pending

    with terminal("deny", name, "--store", path, "--reason", "not on Sundays") as person:
        code, told = person.end()
    outcome = pay(path, 3, effects)

    assert (code, outcome.status, effects) == (0, "denied", [])
    assert outcome.response.text == "not on Sundays"
    assert f"question {name!r} is denied" in told


@pytest.mark.full
def test_a_person_reviews_new_questions(path, terminal):
    keep(path, question("2a"), question("1a", asked_ns=now() - 1))

    with terminal("review", "--watch", "--store", path) as person:
        person.expect("approve 1a? ")
        person.type("y\n")
        person.expect("question '1a' is approved")
        person.expect("approve 2a? ")
        person.type("perhaps\n")
        person.expect("not an answer")
        person.expect("approve 2a? ")
        person.type("\n")
        keep(path, question("3a"))
        person.expect("approve 3a? ")
        person.type("no use the copy\n")
        person.expect("question '3a' is denied")
        person.type("\x03")
        code, rest = person.end()

    states = {name: (each.state, each.reason) for name, each in kept(path).items()}
    assert states == {
        "1a": ("approved", ""),
        "2a": ("pending", ""),
        "3a": ("denied", "use the copy"),
    }
    assert code == 130
    assert "approve 2a" not in rest


@pytest.mark.full
def test_a_late_answer_changes_nothing(path, terminal):
    done = question("1a", state="denied", answered_by="bob")
    keep(path, done, question("2a", expires_ns=now() - 1), question("3a"))
    told = {}

    for name in ("1a", "2a"):
        with terminal("approve", name, "--store", path) as person:
            told[name] = person.end()
    with terminal("approve", "3a", "--store", path) as person:
        person.expect(PROMPT)

        async def deny():
            async with SqliteStore(path) as store:
                digest = question("3a").digest
                await answer(store, "3a", digest, approve=False, by="ann")

        asyncio.run(deny())
        person.type("y\n")
        told["3a"] = person.end()

    assert told["1a"][0] == told["2a"][0] == 2
    assert "question 1a is denied already by bob; nothing can be answered" in told["1a"][1]
    assert "question 2a is expired already" in told["2a"][1]
    assert told["3a"][0] == 1
    assert "was answered already by 'ann', and is denied" in told["3a"][1]
    after = kept(path)
    assert after["1a"] == done
    assert [after[name].state for name in ("2a", "3a")] == ["pending", "denied"]


@pytest.mark.full
def test_an_answer_needs_a_terminal(path, environment):
    lost = question("2a", state="unknown")
    keep(path, question("1a"), lost)
    commands = (
        ["approve", "1a"],
        ["deny", "1a"],
        ["settle", "2a", "--never-ran"],
        ["revoke", "1a"],
    )

    def run(words, **variables):
        return subprocess.run(
            [sys.executable, "-m", "toolbus", "approvals", *words, "--store", path],
            env=without_agents(environment) | variables,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )

    refused = [run(words) for words in commands] + [run(commands[0], CLAUDECODE="1")]

    for done in refused:
        assert (done.returncode, done.stdout) == (2, "")
        assert "this needs a person at an interactive terminal" in done.stderr
    assert kept(path) == {"1a": question("1a"), "2a": lost}


def test_a_changed_question_is_not_approved(path, terminal):
    keep(path, replace(question("1a"), arguments={"amount": 9_000}))

    with terminal("approve", "1a", "--store", path) as person:
        code, told = person.end()

    assert (code, kept(path)["1a"].state) == (2, "pending")
    assert PROMPT not in told
    assert "its digest is not that of its arguments: the store was changed" in told


@pytest.mark.full
def test_a_grant_is_listed_and_revoked(path, terminal, approvals):
    effects = []
    (name,) = pay(path, 1, effects).pending

    with terminal("approve", name, "--for", "1h", "--store", path) as person:
        shown = person.expect(PROMPT)
        person.type("y\n")
        code, granted = person.end()
    (grant,) = map(json.loads, approvals("grants", "--json", "--store", path).stdout.splitlines())
    listed = approvals("grants", "--store", path).stdout
    other = pay(path, 2, effects)
    with terminal("revoke", grant["id"][:6], "--store", path) as person:
        revoked = person.end()
    third = pay(path, 3, effects)
    left = approvals("grants", "--store", path).stdout
    everything = approvals("grants", "--all", "--store", path).stdout

    assert "a yes allows every call of pay, whatever its arguments" in " ".join(shown.split())
    assert f"approvals --store {shlex.quote(str(path))} revoke {grant['id']}`" in granted
    assert (code, revoked[0], effects) == (0, 0, [2])
    assert grant["expires_ns"] - grant["granted_ns"] == HOUR
    assert f"{grant['id']}  active, until " in listed
    assert "each call of pay in session s for which till asks" in listed
    assert (other.status, third.status) == ("ok", "pending")
    assert left.startswith("no active grants")
    assert "revoked by" in everything


@pytest.mark.full
def test_a_coding_agent_s_question_is_granted(path, terminal, approvals):
    keep(path, question("1a", state="hosted", host="pi", guard="policy.judge", rule="r"))

    listed = approvals("--store", path).stdout
    with terminal("approve", "1a", "--store", path) as person:
        refused, why = person.end()
    with terminal("approve", "1a", "--session", "--store", path) as person:
        shown = person.expect(PROMPT)
        person.type("y\n")
        code, said = person.end()
    (grant,) = map(json.loads, approvals("grants", "--json", "--store", path).stdout.splitlines())

    assert "  hosted  " in listed
    assert (refused, code) == (2, 0)
    assert "is asked by the agent itself; answer it there, or grant" in why
    assert "a yes allows every call of pay" in " ".join(shown.split())
    assert "similar calls run from now on without a question" in said
    assert (grant["tool"], grant["guard"], grant["rule"]) == ("pay", "policy.judge", "r")
    assert kept(path)["1a"].state == "hosted"


@pytest.mark.full
def test_an_unknown_result_is_recorded(path, terminal):
    gone = gone_process()
    keep(
        path,
        question("1a", state="unknown"),
        question("2a", state="taken", taken_by=gone),
        question("3a", state="taken", taken_by=f"{this_process()}/x"),
        question("4a"),
        question("5a", state="taken", taken_by=gone, host="codex"),
    )
    codes = []

    words = (["1a", "--ran"], ["2a", "--never-ran"], ["1a", "--never-ran"], ["3a", "--ran"])
    for each in (*words, ["4a", "--ran"], ["5a", "--ran"]):
        with terminal("settle", *each, "--store", path) as person:
            codes.append(person.end()[0])

    after = kept(path)
    states = ["done", "withdrawn", "taken", "pending", "done"]
    assert codes == [0, 0, 1, 1, 1, 0]
    assert [each.state for each in after.values()] == states
    assert after["1a"].settled_by
    assert after["2a"].settled_by


@pytest.mark.full
def test_postgresql_keeps_questions_as_well(postgres, terminal, approvals):
    address, effects = postgres.address(postgres.create_database()), []
    (name,) = pay(address, 3, effects).pending

    listed = approvals("--store", address).stdout
    with terminal("approve", name, "--store", address) as person:
        person.expect(PROMPT)
        person.type("y\n")
        code, _ = person.end()
    outcome = pay(address, 3, effects)

    assert listed.splitlines()[1].split()[:2] == [name, "pending"]
    assert (code, outcome.status, effects) == (0, "ok", [3])

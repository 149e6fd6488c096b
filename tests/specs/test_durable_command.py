"""The commands of durable runs; see `specs/durable_command.md`."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import durable_app
from durable_world import (
    DurableWorld,
    await_ends,
    check_world,
    environment,
    read_sessions,
    submit_all,
    until,
    words_of,
)
from kill_steps import runs_in
from memory_engine import MemoryEngine
from toolbus.approvals import answer
from toolbus.approvals.records import questions_of
from toolbus.cli.assembly import find_session_id
from toolbus.cli.command_line import main
from toolbus.durable.runs import PREFIX, VERSION, decode_run, swap_run
from toolbus.store.store_factory import open_reader, open_store


@pytest.fixture
def durable_world(database, tmp_path):
    """Give a world on an empty PostgreSQL database."""
    world = DurableWorld(database, tmp_path)
    yield world
    world.close()


def listed(world, *words):
    """Return the runs that `toolbus runs` lists, as JSON."""
    done = world.command("runs", "--store", world.address, "--json", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def approve(address, session_id):
    """Answer the open question of a session with yes."""
    async with open_store(address) as store:
        (question,) = await questions_of(store, session_id)
        await answer(store, question.id, question.digest, approve=True, by="ann")


@pytest.fixture
def in_file(tmp_path):
    """Give a world with an SQLite file, for what is the same on all stores."""
    world = DurableWorld(tmp_path / "s.db", tmp_path)
    yield world
    world.close()


@pytest.mark.full
def test_a_submitted_run_ends(in_file):
    in_file.start()

    done = in_file.submit("work 3", "--new-session", "mine", "--json")
    await_ends(in_file, 30)

    submitted = json.loads(done.stdout)
    assert check_world(in_file, ["mine"]) == {"ok": 3}
    assert listed(in_file) == []
    (run,) = listed(in_file, "--all")
    assert submitted | {"word": "ok"} == {name: run[name] for name in submitted}
    assert [*submitted.values()] == [run["id"], "mine", "q", "queued"]


@pytest.mark.full
def test_a_held_run_waits_for_its_answer(in_file):
    worker = in_file.start()
    asyncio.run(submit_all(in_file, {"bill": "pay"}))
    until(lambda: words_of(in_file) == {"bill": "held"}, 30, in_file.logs)
    assert in_file.stop(worker) == 0

    (held,) = listed(in_file)
    asyncio.run(approve(in_file.address, "bill"))
    in_file.start()
    await_ends(in_file, 30)

    assert (held["word"], held["slot"], len(held["questions"])) == ("held", "", 1)
    assert check_world(in_file, ["bill"]) == {"ok": 1}


@pytest.mark.full
def test_a_session_is_continued_or_begun(in_file):
    asyncio.run(submit_all(in_file, {"ticket-1": "work 1"}))
    change_run(in_file, word="ok")

    done = [
        in_file.submit("go", *words)
        for words in (
            ["--session", "tick"],
            ["--session", "tock"],
            ["--session", ""],
            ["--session", "worker:"],
            ["--new-session", "mine"],
            ["--new-session", "mine"],
            ["--queue", ""],
        )
    ]

    assert [each.returncode for each in done] == [0, 2, 2, 2, 0, 2, 2]
    assert done[0].stdout.endswith(" of session ticket-1\n")
    assert done[4].stdout.endswith(" of session mine\n")
    for number, reason in (
        (1, "no session 'tock'"),
        (2, "no session ''"),
        (3, "session 'worker:' has no messages; give another one"),
        (5, "session 'mine' has begun; continue it with --session"),
        (6, "expected a name, got an empty one"),
    ):
        assert reason in done[number].stderr
    runs = [(run["session_id"], run["word"]) for run in listed(in_file, "--all")]
    assert sorted(runs) == [("mine", "queued"), ("ticket-1", "ok"), ("ticket-1", "queued")]


class Typed(io.TextIOWrapper):
    """A standard input with a text; *is_terminal*: a person has typed it."""

    def __init__(self, text, *, is_terminal):
        super().__init__(io.BytesIO(text.encode()))
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def test_a_terminal_is_told_of_the_prompt(monkeypatch, tmp_path, capsys):
    words = ["submit", "missing.py:agent", "--store", str(tmp_path / "s.db")]
    told = []
    for is_terminal in (True, False):
        monkeypatch.setattr(sys, "stdin", Typed("go\n", is_terminal=is_terminal))
        assert main(words) == 2
        told.append(capsys.readouterr().err.splitlines()[:-1])

    assert told == [["type the prompt; Enter and Ctrl-D end it"], []]


@pytest.mark.full
def test_tenants_share_a_queue(durable_world):
    asyncio.run(submit_all(durable_world, {f"a{n}": "nap 0.3" for n in range(10)}, tenant="a"))
    asyncio.run(submit_all(durable_world, {"b": "nap 0.3"}, tenant="b"))

    durable_world.start("--per-tenant", "1")
    await_ends(durable_world, 90)

    naps = runs_in(f"{durable_world.effects}.naps")
    theirs = [line.split()[1] for line in naps if line.startswith("a")]
    assert theirs == ["begins", "ends"] * 10
    assert naps.index("b begins") < 6
    assert len(naps) == 22


@pytest.mark.full
def test_runs_without_a_tenant_share_one(in_file):
    asyncio.run(submit_all(in_file, {"a": "nap 0.5", "b": "nap 0.5"}))

    in_file.start("--per-tenant", "1")
    await_ends(in_file, 30)

    naps = runs_in(f"{in_file.effects}.naps")
    assert [line.split()[1] for line in naps] == ["begins", "ends"] * 2


@pytest.mark.full
def test_a_queue_has_its_own_workers(in_file):
    in_file.start()
    other = DurableWorld(in_file.address, in_file.folder, queue="other")
    asyncio.run(submit_all(other, {"theirs": "work 1"}))
    asyncio.run(submit_all(in_file, {"mine": "work 1"}))

    until(lambda: words_of(in_file)["mine"] == "ok", 30, in_file.logs)

    assert words_of(in_file)["theirs"] == "queued"
    assert [run["queue"] for run in listed(in_file)] == ["other"]


@pytest.mark.full
def test_a_run_of_a_killed_worker_waits(in_file):
    worker = in_file.start()
    asyncio.run(submit_all(in_file, {"s": "nap 60"}))
    until(in_file.runs_of_tools, 30, in_file.logs)

    (before,) = listed(in_file)
    in_file.kill(worker)
    (after,) = listed(in_file)

    assert (before["word"], before["slot"]) == ("running", "worker:q:1")
    assert (after["word"], after["slot"]) == ("queued", "")


@pytest.mark.full
def test_places_without_messages_are_not_listed(in_file):
    in_file.start()
    asyncio.run(submit_all(in_file, {"mine": "work 1"}))
    await_ends(in_file, 30)

    for command in ("sessions", "check", "export"):
        done = in_file.command(command, in_file.address)
        assert "mine" in done.stdout
        assert "worker:" not in done.stdout
    assert find_session_id(in_file.address, "") == "mine"


@pytest.mark.full
def test_a_run_is_cancelled(in_file):
    in_file.start("--runs", "1")
    asyncio.run(submit_all(in_file, {"runs": "nap 60"}))
    until(in_file.runs_of_tools, 30, in_file.logs)
    asyncio.run(submit_all(in_file, {"waits": "work 1", "next": "work 1"}))
    ids = {run["session_id"]: run["id"] for run in listed(in_file)}

    for name in ("waits", "runs"):
        done = in_file.command("runs", "cancel", ids[name][:12], "--store", in_file.address)
        assert done.returncode == 0, done.stderr
    until(lambda: words_of(in_file)["next"] == "ok", 30, in_file.logs)

    words = {run["session_id"]: run["word"] for run in listed(in_file)}
    assert words == {"runs": "cancelled", "waits": "cancelled"}
    assert {name.split()[0] for name in in_file.runs_of_tools()} == {"runs", "next"}


@pytest.mark.full
def test_a_failed_run_is_tried_again(in_file, monkeypatch):
    monkeypatch.setenv("DURABLE_BROKEN", "1")
    worker = in_file.start()
    asyncio.run(submit_all(in_file, {"s": "work 2"}))
    until(lambda: words_of(in_file)["s"] == "failed", 30, in_file.logs)
    in_file.stop(worker)
    monkeypatch.delenv("DURABLE_BROKEN")
    (failed,) = listed(in_file)

    done = in_file.command("runs", "retry", failed["id"], "--store", in_file.address)
    in_file.start()
    await_ends(in_file, 30)

    assert done.returncode == 0, done.stderr
    assert "out of order" in failed["failure"]
    assert check_world(in_file, ["s"]) == {"ok": 2}


def change_run(world, **changes):
    """Change the only run's record in the store."""

    async def change():
        with open_reader(world.address) as reader:
            ((_, row),) = reader.states_like(PREFIX)
        run = decode_run(row.body)
        async with open_store(world.address) as store:
            assert await swap_run(store, run, replace(run, **changes))

    asyncio.run(change())


@pytest.mark.full
def test_a_lost_run_is_queued_again(in_file):
    engine = MemoryEngine(version=VERSION)  # It ends with this process.
    asyncio.run(submit_all(in_file, {"s": "work 2"}, engine))
    change_run(in_file, submitted_ns=1)

    (lost,) = listed(in_file)
    done = in_file.command("runs", "retry", lost["id"], "--store", in_file.address)
    in_file.start()
    await_ends(in_file, 30)

    assert lost["word"] == "lost"
    assert done.returncode == 0, done.stderr
    assert check_world(in_file, ["s"]) == {"ok": 2}


@pytest.mark.full
def test_texts_cannot_control_the_terminal(in_file):
    asyncio.run(submit_all(in_file, {"bad\x1b[31m\nname": "work 1"}))
    change_run(in_file, word="failed", failure="\x1b]0;x\x07")

    for words in ([], ["--json"]):
        done = in_file.command("runs", "--store", in_file.address, *words)
        assert "failed" in done.stdout
        assert [char for char in done.stdout if not (char.isprintable() or char == "\n")] == []


@pytest.mark.full
def test_unknown_runs_are_refused(in_file):
    asyncio.run(submit_all(in_file, {"s": "work 1"}))
    change_run(in_file, word="ok")
    (run,) = listed(in_file, "--all")
    asyncio.run(submit_all(in_file, {"waits": "work 1"}))
    (waiting,) = listed(in_file)

    for words, reason in (
        (["cancel", "zz"], "no run has an id that begins with 'zz'"),
        (["cancel", ""], "expected a name, got an empty one"),
        (["cancel", run["id"]], "has ended as ok; there is nothing to cancel"),
        (["retry", run["id"]], "is ok; there is nothing to try again"),
        (["retry", waiting["id"]], "has not ended; cancel it to try it again"),
    ):
        done = in_file.command("runs", *words, "--store", in_file.address)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr


TARGETS = """
from toolbus import Agent
from toolbus.models import ScriptedModel
one = Agent(ScriptedModel([]))
def bare(): return one
def ends(session_id, store): raise SystemExit(3)
def none(session_id, store): pass
"""


def test_wrong_targets_are_refused(tmp_path, capsys):
    file, where = tmp_path / "targets.py", ["--store", str(tmp_path / "s.db")]
    file.write_text(TARGETS, "utf-8")

    for name, reason in (
        ("one", "is not a function, but 'Agent'; give a function of `session_id` and `store`"),
        ("bare", "too many positional arguments; give a function of `session_id` and `store`"),
        ("missing", "has no 'missing'; known: ends, none"),
        ("non", "has no 'non'; did you mean 'none'?"),
    ):
        assert main(["submit", f"{file}:{name}", "go", *where]) == 2
        assert reason in capsys.readouterr().err
    assert [*tmp_path.glob("s.db*")] == []


def test_functions_that_fail_are_named(tmp_path, capsys):
    file, where = tmp_path / "targets.py", ["--store", str(tmp_path / "s.db")]
    file.write_text(TARGETS, "utf-8")

    for name, reason in (
        ("ends", "it raised SystemExit: 3"),
        ("none", "it must return one, not 'NoneType'"),
    ):
        assert main(["submit", f"{file}:{name}", "go", *where]) == 2
        assert reason in capsys.readouterr().err


@pytest.mark.full
def test_a_file_has_one_worker(in_file):
    in_file.start()
    until(lambda: "worker:q:1" in in_file.logs(), 30, in_file.logs)

    second = in_file.start()

    assert second.wait(30) == 2
    assert "it has 1 worker, and its store allows no more" in in_file.logs()


WITHOUT = "import sys; sys.modules['dbos'] = None; from toolbus.cli import main; sys.exit(main())"


def test_without_the_extra_it_is_named(in_file, tmp_path):
    target, missing, there = f"{in_file.app}:agent", tmp_path / "new.db", tmp_path / "old.db"
    asyncio.run(open_store(there).close())
    for words in (["worker", target], ["submit", target, "go"], ["runs"]):
        store = there if words == ["runs"] else missing
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *words, "--store", str(store)],
            env=environment(in_file.effects),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "the extra" in done.stderr
        assert "[dbos]" in done.stderr
    assert [*tmp_path.glob("*.durable"), *tmp_path.glob("new.db*")] == []


@pytest.mark.full
def test_a_gentle_stop_hands_over(durable_world):
    first = durable_world.start()
    asyncio.run(submit_all(durable_world, {"long": "work 300"}))
    until(durable_world.runs_of_tools, 30, durable_world.logs)
    durable_world.start()
    until(lambda: "worker:q:2" in durable_world.logs(), 30, durable_world.logs)

    assert durable_world.stop(first) == 0
    before = durable_world.runs_of_tools().total()
    await_ends(durable_world, 60)

    assert before < 300
    assert check_world(durable_world, ["long"]) == {"ok": 300}


@pytest.mark.full
def test_a_new_version_ends_open_runs(durable_world, tmp_path):
    folder = tmp_path / "next"
    folder.mkdir()
    text = Path(durable_app.__file__).read_text("utf-8").replace("let me see", "let me look")
    (folder / "app.py").write_text(text, "utf-8")
    old = durable_world.start()
    names = [f"s{number}" for number in range(50)]
    asyncio.run(submit_all(durable_world, dict.fromkeys(names, "work 20")))
    until(lambda: durable_world.runs_of_tools().total() > 60, 60, durable_world.logs)
    assert durable_world.stop(old) == 0
    open_runs = len(listed(durable_world))

    durable_world.app = folder / "app.py"
    durable_world.start()
    await_ends(durable_world, 120)

    assert open_runs > 30
    assert check_world(durable_world, names) == {"ok": 1000}
    texts = {
        message.text
        for messages in asyncio.run(read_sessions(durable_world.address, names)).values()
        for message in messages
    }
    assert {"let me see", "let me look"} < texts

"""The scenarios of `specs/demo.md`."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.fake_provider import FakeProvider
from tests.servers.terminal import Terminal

from toolbus.errors import ModelError
from toolbus.events import ModelRequest
from toolbus.messages import ToolMessage
from toolbus.models import ReplayModel
from toolbus.store.sqlite import SqliteStore

HANDLERS = {
    "Secrets": "credentials redacted",
    "LongResults": "a log cut",
    "GitManners": "commands rewritten",
    "NoDestruction": "a command denied",
    "AskBeforePush": "a person asked",
    "MissingFiles": "a failure answered",
}


def git(folder, *arguments):
    """Return what git says in the repository *folder*."""
    return subprocess.check_output(["git", "-C", folder, *arguments], text=True)


def block(text, start):
    """Return the lines below the first one that holds *start*, as far as they are further in."""
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if start in line)
    below = lines[first + 1 :]
    end = next(at for at, line in enumerate(below) if not line.startswith("     "))
    return "\n".join(below[:end])


def credentials_of(report):
    """Return the credentials that the settings file holds."""
    (config,) = Path(report["repository"], "config").iterdir()
    shapes = r"gh\w_\w{36}|AKIA\w{16}|sk_live_\w+|xoxb-[\w-]+|(?<=:)\w+(?=@)"
    return re.findall(shapes, config.read_text())


async def test_the_demo_ends_with_every_intervention(shared_command):
    done = shared_command("demo", "--seed", 7)

    assert done.returncode == 0
    assert done.stderr == ""
    for component, expected in HANDLERS.items():
        assert re.search(rf"✓  {expected} +{component} +calls? [\d, ]+$", done.stdout, re.MULTILINE)
    assert re.search(r"✓  calls at the same time +calls 1, 2, 3", done.stdout)
    assert re.search(r"✓  an unknown tool explained +call 6", done.stdout)
    assert done.stdout.endswith("\nevery intervention happened\n")


async def test_a_call_shows_who_did_what(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    push = block(text, "run_command git push --force origin main")
    assert "~ GitManners.rewrite changed the call" in push
    assert "- git push --force origin main\n" in push
    assert "+ git push --force-with-lease origin main\n" in push
    assert "? AskBeforePush.ask asked a person" in push
    assert "May it run `git push --force-with-lease origin main`?\n" in push
    assert "yes, said the approver" in push
    assert "`git reset --hard` cannot be undone" in block(text, "git reset --hard")


async def test_before_and_after_stand_side_by_side(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    rows = block(text, "read_file config/")
    assert re.search(r"GITHUB_TOKEN=ghp_\w+… +│ GITHUB_TOKEN=\[GitHub token\]$", rows, re.MULTILINE)
    assert len({row.index("│") for row in rows.splitlines() if "│" in row}) == 1


async def test_the_timeline_fits_eighty_columns(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    files = ("toolbus-demo-", "components.py")
    lines = [line for line in text.splitlines() if not any(name in line for name in files)]
    assert len(lines) > 60
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith(" ")]


async def test_lines_appear_while_the_agent_works(tmp_path, environment):
    gate, programs = tmp_path / "gate", tmp_path / "programs"
    programs.mkdir()
    waiting = f'case "$*" in "commit -q -a"*) until [ -e {gate} ]; do sleep 0.01; done;; esac'
    (programs / "git").write_text(f'#!/bin/sh\n{waiting}\nexec {shutil.which("git")} "$@"\n')
    (programs / "git").chmod(0o755)
    path = f"{programs}{os.pathsep}{environment['PATH']}"

    with subprocess.Popen(
        [sys.executable, "-m", "toolbus", "demo"],
        env=environment | {"PATH": path},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as demo:
        for line in demo.stdout:
            if line.startswith("turn 6"):
                break
        gate.touch()
        rest = demo.stdout.read()

    assert line.startswith("turn 6")
    assert "turn 7" in rest
    assert demo.returncode == 0


async def test_numbers_tell_what_handlers_were_good_for(shared_command):
    report = json.loads(shared_command("demo", "--json").stdout)

    totals, planted = report["totals"], credentials_of(report)
    assert totals["credentials_planted"] == totals["credentials_returned"] == len(planted) > 2
    assert totals["credentials_read"] == totals["credentials_stored"] == 0
    assert totals["characters_returned"] > 100_000 > 20 * totals["characters_read"] > 0
    stored = b"".join(file.read_bytes() for file in Path(report["folder"]).glob("transcript.db*"))
    assert len(stored) > 10_000
    assert not [one for one in planted if one.encode() in stored]


async def test_the_commands_to_run_next_work(tmp_path, command, environment):
    text = command("demo", "--seed", 7).stdout

    _, _, following = text.partition("what to run next\n")
    commands = following.partition("\n\n")[0].replace("\\\n", "").splitlines()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    ends = []
    for line in commands:
        words = shlex.split(line)
        done = subprocess.run(words, cwd=tmp_path / "here", env=environment, check=False)
        ends.append((words[0] if words[1] == "-C" else words[3], done.returncode))
    assert ends == [("demo", 1), ("handlers", 0), ("git", 0)]


@pytest.mark.full
async def test_the_texts_are_those_of_the_store(command):
    report = json.loads(command("demo", "--json").stdout)

    async with SqliteStore(report["transcript"], read_only=True) as store:
        messages = await store.read(report["session_id"])
    read = [(one.tool_call_id, one.text) for one in messages if isinstance(one, ToolMessage)]
    assert len(read) >= 10
    assert [(call["id"], call["text"]) for call in report["calls"]] == read
    assert messages[-1].text == report["answer"]


async def test_the_deeds_are_those_of_the_ledger(shared_command):
    report = json.loads(shared_command("demo", "--json").stdout)

    async with SqliteStore(report["transcript"], read_only=True) as store:
        records = await store.records(report["session_id"])
    told = {
        (record.call_id, record.event, entry.name, entry.status, entry.reason)
        for record in records
        for entry in record.entries
    }
    deeds = [
        (call["id"], deed["event"], deed["handler"], deed["did"], deed["reason"])
        for call in report["calls"]
        for deed in call["deeds"]
    ]
    assert len(deeds) >= 9
    assert not set(deeds) - told


@pytest.mark.full
async def test_each_run_draws_its_own_world(command):
    one, two = (json.loads(command("demo", "--json").stdout) for _ in range(2))

    logs = [next(Path(report["repository"], "logs").iterdir()) for report in (one, two)]
    assert not set(credentials_of(one)) & set(credentials_of(two))
    assert logs[0].read_text() != logs[1].read_text()


async def test_a_seed_repeats_the_world(command):
    runs = [json.loads(command("demo", "--seed", 42, "--json").stdout) for _ in range(2)]

    histories = [git(run["repository"], "rev-list", "HEAD^") for run in runs]
    assert histories[0] == histories[1]
    assert histories[0].count("\n") >= 3
    assert len({Path(run["recording"]).read_text() for run in runs}) == 1
    assert [run["seed"] for run in runs] == [42, 42]


@pytest.mark.parametrize("component", HANDLERS)
async def test_each_handler_that_is_removed_is_missed(command, component):
    done = command("demo", "--without", component)

    assert done.returncode == 1
    missing = " ".join(done.stdout.partition("\nmissing: ")[2].split())
    assert missing.startswith(f"{HANDLERS[component]} ({component})")
    assert not [name for name in HANDLERS if name != component and name in missing]
    assert re.search(rf"✗  {HANDLERS[component]} +{component}\n", done.stdout)


async def test_without_redaction_the_leak_is_told(command):
    done = command("demo", "--without", "Secrets", "--dir", "files")

    count = done.stdout.partition("\ncredentials, of ")[2].split()[0]
    told = f"{count} credentials reached the model, {count} the transcript's file\nmissing: "
    assert f"\n{told}" in done.stdout
    folder = re.search(r"transcript +(\S+)/transcript\.db\n", done.stdout)[1]
    stored = Path(folder, "transcript.db").read_bytes()
    planted = credentials_of({"repository": f"{folder}/repo"})
    assert [one for one in planted if one.encode() in stored] == planted


async def test_without_the_guard_files_are_gone(command):
    done = command("demo", "--without", "NoDestruction", "--json")

    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert [call["status"] for call in report["calls"]].count("denied") == 0
    assert not Path(report["repository"], "logs").exists()


async def test_an_unknown_handler_is_refused(command):
    done = command("demo", "--without", "secrets")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --without secrets: no such handler; there is Secrets\n"


async def test_a_fresh_folder_is_kept(tmp_path, command):
    report = json.loads(command("demo", "--json").stdout)

    assert Path(report["folder"]).parent == tmp_path / "tmp"
    for what in ("transcript", "recording", "repository"):
        assert Path(report[what]).exists()
        assert Path(report[what]).parent == Path(report["folder"])


async def test_a_chosen_folder_is_made(tmp_path, command):
    done = command("demo", "--dir", "new/files")

    assert done.returncode == 0
    names = {one.name for one in (tmp_path / "here/new/files").iterdir()}
    assert {"transcript.db", "session.jsonl", "repo"} <= names
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_a_folder_with_files_is_refused(tmp_path, command):
    full, file = tmp_path / "full", tmp_path / "full/note"
    full.mkdir()
    file.write_text("mine")

    for wanted, reason in ((full, "the folder is not empty"), (file, "File exists")):
        done = command("demo", "--dir", wanted)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: --dir {wanted}: {reason}; give an empty or a ")
        assert done.stderr.count("\n") == 1
    assert [one.name for one in full.iterdir()] == ["note"]
    assert file.read_text() == "mine"


async def test_the_agent_s_work_is_in_git(shared_command):
    report = json.loads(shared_command("demo", "--json").stdout)

    repository = report["repository"]
    last = git(repository, "log", "-1", "--format=%H %s")
    assert re.fullmatch(r"\w{40} Send batches of \d+ rows\n", last)
    assert git(Path(report["folder"], "origin.git"), "rev-parse", "main").strip() == last[:40]
    assert git(repository, "show", "--format=", "--name-only").split() == ["scripts/nightly.sh"]
    said = subprocess.check_output(["sh", "scripts/nightly.sh"], cwd=repository, text=True)
    assert re.search(r"imported \d+ rows in \d+ batches", said)


async def test_without_git_one_line_says_so(tmp_path, command):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(shutil.which("sh"))

    done = command("demo", PATH=str(programs))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the demo needs git and a POSIX shell; not found: git\n"


@pytest.mark.full
async def test_strange_settings_of_git_do_no_harm(tmp_path, command):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "pre-push"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[commit]\ngpgSign = true\n[init]\ndefaultBranch = trunk\n[core]\nhooksPath = {hooks}\n"
    )

    done = command("demo", HOME=str(tmp_path), GIT_DIR=str(tmp_path), GIT_AUTHOR_DATE="never")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.full
async def test_one_document_tells_the_whole_run(command):
    well, ill = (command("demo", "--json", *more) for more in ((), ("--without", "GitManners")))

    reports = [json.loads(done.stdout) for done in (well, ill)]
    assert [done.stderr for done in (well, ill)] == ["", ""]
    assert [done.returncode for done in (well, ill)] == [0, 1]
    assert [report["ok"] for report in reports] == [True, False]
    assert [report["missing"] for report in reports] == [[], ["commands rewritten (GitManners)"]]
    for report in reports:
        assert len(report["calls"]) >= 10
        assert all(check["happened"] for check in report["checks"]) == report["ok"]
        assert {"characters_read", "credentials_stored"} <= report["totals"].keys()


BROKEN = '{"path": "a'


def live_answers(seen):
    """Return the answer to a request: what it finds in the folder, then two calls, then text."""
    turns = [turn for turn in seen.body["messages"] if turn["role"] == "assistant"]
    match len(turns):
        case 0:
            return [("call", "c1", "run_command", '{"command": "ls config"}')]
        case 1:
            file = seen.body["messages"][-1]["content"].strip()
            reading = ("call", "c2", "read_file", json.dumps({"path": f"config/{file}"}))
            log = ("call", "c3", "run_command", '{"command": "git log"}')
            return [("text", "I look."), reading, log, ("call", "c4", "read_file", BROKEN)]
    return [("text", "I leave it.")]


async def run_live(command, server, *words):
    options = ("--live", "--model=openai:m", f"--base-url={server.url}/v1", *words)
    return await asyncio.to_thread(command, "demo", *options)


@pytest.mark.full
async def test_a_live_model_works_in_its_place(command, tmp_path):
    async with FakeProvider(live_answers) as server:
        done = await run_live(command, server, "--yes", "--dir=live")
        leaking = await run_live(command, server, "--yes", "--json", "--without=Secrets")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Redact changed" in done.stdout
    assert re.search(r"✓  commands rewritten +GitManners +call 3", done.stdout)
    assert "m did not bring about: a log cut (LongResults), " in " ".join(done.stdout.split())
    played = ReplayModel.from_file(tmp_path / "here/live/session.jsonl")
    assert len([answer async for answer in answers_of(played)]) == 3
    report = json.loads(leaking.stdout)
    assert (leaking.returncode, report["ok"], report["live"]) == (1, False, "m")
    assert report["totals"]["credentials_read"] > 0
    statuses = [call["status"] for call in report["calls"]]
    assert statuses == ["ok", "ok", "ok", "invalid_arguments"]
    assert "authorization" not in server.requests[0].headers


async def answers_of(model):
    with contextlib.suppress(ModelError):
        while True:
            yield await model.complete(ModelRequest(model="m", messages=()))


@pytest.mark.full
async def test_a_live_model_is_asked_about(environment, tmp_path):
    def talk(url):
        words = ["demo", "--live", "--model=openai:m", f"--base-url={url}/v1"]
        cwd, env = tmp_path / "here", environment | {"NO_COLOR": "1"}
        with Terminal(words, cwd=cwd, env=env) as person:
            question = person.expect("approve? [y, n, n and a reason, ? for more] ")
            person.type("n\n")
            return question, *person.end()

    reading = ("call", "c1", "search_files", '{"pattern": "x"}')
    asking = ("call", "c2", "run_command", '{"command": "touch ran"}')
    async with FakeProvider([[reading, asking], [("text", "Then not.")]]) as server:
        question, code, shown = await asyncio.to_thread(talk, server.url)

    assert code == 0
    assert question.count("the model calls") == 1
    assert "│ touch ran" in question
    assert "the person refused this call" in shown
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.full
def test_a_live_model_needs_key_and_consent(command):
    model = "--model=openai:m"
    cases = {
        ("--live",): "TOOLBUS_MODEL",
        ("--live", model, "--yes"): "set OPENAI_API_KEY",
        ("--live", model, "--base-url=http://127.0.0.1:1"): "--yes",
        (model,): "--live",
        ("--live", model, "--base-url=ftp://x"): "expected an address",
    }

    for words, way_out in cases.items():
        done = command("demo", *words, OPENAI_API_KEY="", TOOLBUS_MODEL="")
        assert (done.returncode, done.stdout) == (2, "")
        assert way_out in done.stderr
        assert done.stderr.count("\n") == 1

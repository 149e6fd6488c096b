"""The scenarios of `specs/demo.md`."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.terminal import Terminal

from toolbus.messages import ToolMessage
from toolbus.store.sqlite import SqliteStore

COMPONENTS = ["Redact", "TruncateOutput", "GitManners", "NoDestruction", "AskBeforePush"]


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


def files_of(report):
    """Return the folder of the repository of a run."""
    return Path(report["transcript"]).parent / "repo"


def credentials_of(folder):
    """Return the credentials in the settings file of the repository *folder*."""
    (config,) = Path(folder, "config").iterdir()
    return re.findall(r"ghp_\w{36}|sk_live_\w+|(?<=:)\w+(?=@)", config.read_text())


def test_the_demo_says_what_would_go_wrong(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    opening = " ".join(text.partition("\nturn 1")[0].split())
    assert "asked to repair a nightly import" in opening
    assert re.search(r"Without toolbus, .* get 3 credentials and a log of \d{3},\d{3} ch", opening)
    assert "`git reset --hard && git clean -fdx` deletes files" in opening
    assert "a forced push leaves the machine unasked" in opening


def test_the_demo_ends_with_every_intervention(shared_command):
    done = shared_command("demo", "--seed", 7)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nevery component intervened\n")


def test_a_call_shows_its_interventions(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    push = block(text, "shell git push --force origin main")
    assert "~ GitManners.rewrite changed the call" in push
    assert "- git push --force origin main\n" in push
    assert "+ git push --force-with-lease origin main\n" in push
    assert "? AskBeforePush.ask required approval of the call" in push
    assert "May it run `git push --force-with-lease origin main`?" in push
    denied = block(text, "shell git reset --hard")
    assert "✗ NoDestruction.forbid denied the call" in denied
    assert "`git reset --hard` cannot be undone" in denied


def test_before_and_after_are_side_by_side(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    rows = block(text, "read_file config/")
    assert re.search(r"GITHUB_TOKEN=ghp_\w+… +│ GITHUB_TOKEN=\[GitHub token\]$", rows, re.MULTILINE)
    assert len({row.index("│") for row in rows.splitlines() if "│" in row}) == 1


def test_the_timeline_fits_eighty_columns(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    files = ("toolbus-demo-", "components.py")
    lines = [line for line in text.splitlines() if not any(name in line for name in files)]
    assert len(lines) > 60
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith(" ")]


def test_lines_appear_while_the_agent_works(tmp_path, environment):
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
            if line.startswith("turn 7"):
                break
        gate.touch()
        rest = demo.stdout.read()

    assert line.startswith("turn 7")
    assert "turn 8" in rest
    assert demo.returncode == 0


@pytest.mark.full
def test_a_terminal_pauses_before_each_turn(tmp_path, environment):
    def terminal(*words):
        return Terminal(["demo", *words], cwd=tmp_path, env=environment | {"NO_COLOR": "1"})

    with terminal("--no-pause") as person:
        code, shown = person.end()
    assert (code, shown.count("press Enter to continue")) == (0, 0)

    with terminal() as person:
        parts = []
        for _ in range(10):
            parts.append(person.expect("press Enter to continue "))
            person.type("\n")
        code, shown = person.end()
    turns = [re.findall(r"^turn (\d)", part, re.MULTILINE) for part in parts]
    assert turns == [[], *[[str(number)] for number in range(1, 9)], []]
    assert code == 0
    assert "the store's files hold 0 credentials" in " ".join(parts[-1].split())
    assert "toolbus explain" in shown

    with terminal() as person:
        person.expect("press Enter to continue ")
        person.type("\x03")
        assert person.end()[0] == 130


async def test_totals_count_what_the_handlers_kept_back(shared_command):
    report = json.loads(shared_command("demo", "--json").stdout)

    totals, planted = report["totals"], credentials_of(files_of(report))
    assert len(planted) == totals["credentials_returned"] == 3
    assert totals["credentials_read"] == totals["credentials_stored"] == 0
    assert totals["characters_returned"] > 100_000 > 20 * totals["characters_read"] > 0
    async with SqliteStore(report["transcript"], read_only=True) as store:
        messages = await store.read(report["session"])
    read = "".join(one.text for one in messages if isinstance(one, ToolMessage))
    stored = b"".join(each.read_bytes() for each in files_of(report).parent.glob("transcript.db*"))
    assert totals["characters_read"] - len(read) in range(20)
    assert len(stored) > 10_000
    assert not [one for one in planted if one in read or one.encode() in stored]


def test_the_demo_ends_on_an_explanation(shared_command):
    text = shared_command("demo", "--seed", 7).stdout

    words, shown = re.search(
        r"^  .*toolbus (explain .*)\n([^$]*?)\n\nwhat to run next\n", text, re.MULTILINE
    ).groups()
    explained = shared_command(*shlex.split(words))
    assert explained.returncode == 0
    assert explained.stdout == f"{shown}\n"
    assert "✗ NoDestruction.forbid" in shown


def test_the_commands_to_run_next_work(tmp_path, command, environment):
    text = command("demo", "--seed", 7).stdout

    commands = text.partition("what to run next\n")[2].partition("\n\n")[0].splitlines()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    ends = []
    for line in commands:
        words = shlex.split(line)
        done = subprocess.run(words, cwd=tmp_path / "here", env=environment, check=False)
        ends.append((words[3], done.returncode))
    assert ends == [("show", 0), ("demo", 1), ("handlers", 0), ("guide", 0)]


@pytest.mark.full
def test_each_run_draws_its_own_world(command):
    folders = [files_of(json.loads(command("demo", "--json").stdout)) for _ in range(2)]

    logs = [next((folder / "logs").iterdir()).read_text() for folder in folders]
    assert not set(credentials_of(folders[0])) & set(credentials_of(folders[1]))
    assert logs[0] != logs[1]


def test_a_seed_gives_the_same_world(command):
    reports = [json.loads(command("demo", "--seed", 42, "--json").stdout) for _ in range(2)]

    histories = [git(files_of(report), "rev-list", "HEAD") for report in reports]
    logs = [next((files_of(report) / "logs").iterdir()).read_text() for report in reports]
    assert histories[0] == histories[1]
    assert histories[0].count("\n") == 2
    assert logs[0] == logs[1]
    assert [report["seed"] for report in reports] == [42, 42]


def test_a_fresh_folder_is_kept(tmp_path, command):
    report = json.loads(command("demo", "--json").stdout)

    assert files_of(report).parent.parent == tmp_path / "tmp"
    assert Path(report["transcript"]).is_file()
    assert (files_of(report) / ".git").is_dir()


def test_the_agent_s_work_is_in_git(shared_command):
    repository = files_of(json.loads(shared_command("demo", "--json").stdout))

    last = git(repository, "log", "-1", "--format=%H %s")
    assert re.fullmatch(r"\w{40} Send batches of \d+ rows\n", last)
    assert git(repository.parent / "origin.git", "rev-parse", "main").strip() == last[:40]
    assert git(repository, "show", "--format=", "--name-only").split() == ["scripts/nightly.sh"]
    subprocess.run(["sh", "scripts/nightly.sh"], cwd=repository, check=True)


@pytest.mark.parametrize(
    "component",
    [COMPONENTS[0], *[pytest.param(each, marks=pytest.mark.full) for each in COMPONENTS[1:]]],
)
def test_each_component_left_out_is_missed(command, component):
    done = command("demo", "--without", component)

    assert done.returncode == 1
    assert done.stdout.endswith(f"\nmissing: {component}\n")


def test_without_redaction_the_leak_is_counted(command):
    done = command("demo", "--without", "Redact")

    totals = " ".join(done.stdout.split())
    assert re.search(r"model read [\d,]+ characters and 3 credentials; .* hold 3 cr", totals)
    folder = Path(re.search(r"explain (\S+)/transcript\.db ", done.stdout)[1])
    stored = (folder / "transcript.db").read_bytes()
    planted = credentials_of(folder / "repo")
    assert [one for one in planted if one.encode() in stored] == planted


def test_without_the_guard_files_are_gone(command):
    done = command("demo", "--without", "NoDestruction", "--json")

    assert done.returncode == 1
    assert not (files_of(json.loads(done.stdout)) / "logs").exists()


def test_an_unknown_component_is_refused(command):
    done = command("demo", "--without", "redact")

    assert (done.returncode, done.stdout) == (2, "")
    hint = "unknown component 'redact'; did you mean 'Redact'?"
    assert done.stderr == f"error: --without: {hint}\n"


def test_without_git_one_line_says_so(tmp_path, command):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "grep"):
        (programs / name).symlink_to(shutil.which(name))

    done = command("demo", PATH=str(programs))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the demo needs git and a POSIX shell; not found: git\n"


@pytest.mark.full
def test_strange_settings_of_git_do_no_harm(tmp_path, command):
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
def test_one_document_describes_the_run(command):
    whole, less = (command("demo", "--json", *more) for more in ((), ("--without", "GitManners")))

    reports = [json.loads(done.stdout) for done in (whole, less)]
    assert [done.stderr for done in (whole, less)] == ["", ""]
    assert [done.returncode for done in (whole, less)] == [0, 1]
    assert [report["ok"] for report in reports] == [True, False]
    assert [report["missing"] for report in reports] == [[], ["GitManners"]]
    assert set(reports[0]["interventions"]) == set(COMPONENTS)
    assert all(reports[0]["interventions"].values())
    for report in reports:
        assert {"characters_read", "credentials_stored"} <= report["totals"].keys()

"""The scenarios of `specs/approvals_protection.md`."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.terminal import Terminal, run_as_person, without_agents

import toolbus

SOURCE = str(Path(toolbus.__file__).parents[1])
SERVER = [sys.executable, str(Path(__file__).parents[1] / "servers/changing.py"), "said.json"]
CHANGES = [
    ["trust"],
    ["trust", "--revoke"],
    ["hosts", "install", "gemini-cli", "--yes"],
    ["hosts", "uninstall", "gemini-cli", "--yes"],
    ["pin", "--yes", "--", *SERVER],
]
READS = [
    ["trust", "--list"],
    ["trust", "--dry-run"],
    ["hosts", "install", "gemini-cli", "--dry-run"],
    ["hosts", "uninstall", "gemini-cli", "--dry-run"],
    ["hosts", "status"],
    ["pin", "--check", "--", *SERVER],
]
TRUST = [sys.executable, "-m", "toolbus", "trust"]
# A terminal of its own below whoever runs it, as script(1) makes it.
NEW_TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], lambda fd: os.read(fd, 1024))))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a home folder with a project in it, which is the current one, and its environment."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "toolbus.toml").touch()
    (project / "said.json").write_text('{"tools": []}')
    monkeypatch.chdir(project)
    kept = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    return project, kept | {"PYTHONDONTWRITEBYTECODE": "1"}


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".npm" not in str(path)
    }


def run(words, env, **options):
    command = [sys.executable, "-m", "toolbus", *words]
    return subprocess.run(
        command,
        env=without_agents(env),
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_without_a_terminal_it_is_refused(place, tmp_path):
    _, env = place
    ours, theirs = os.openpty()
    before = contents(tmp_path)

    ended = [run(words, env, stdin=theirs) for words in CHANGES]

    os.close(ours)
    os.close(theirs)
    assert [each.returncode for each in ended] == [2] * len(CHANGES)
    said = "toolbus: only a person does this, at a terminal: "
    assert all(each.stderr.startswith(said) and not each.stdout for each in ended)
    assert contents(tmp_path) == before


def test_at_a_terminal_it_is_done(place, tmp_path):
    project, env = place
    settings = tmp_path / ".gemini/settings.json"

    codes = []
    for words in CHANGES:
        ended = run_as_person(
            words, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        codes.append((ended.returncode, settings.exists(), (project / "toolbus.lock").exists()))

    assert codes == [(0, False, False)] * 2 + [
        (0, True, False),
        (0, False, False),
        (0, False, True),
    ]


def test_in_the_background_it_is_refused(place):
    _, env = place
    line = f"set -m; {shlex.join(TRUST)} & wait $!; echo ended with $?"

    shown = below_new_terminal(["sh", "-c", line], env)

    assert "this process is in the background" in shown
    assert "ended with 2" in shown


@pytest.mark.full
def test_to_read_needs_no_person(place):
    _, env = place
    assert run_as_person(CHANGES[-1], env=env, capture_output=True, check=False).returncode == 0

    ended = [run(words, env, stdin=subprocess.DEVNULL) for words in READS]

    assert [(each.returncode, each.stderr) for each in ended] == [(0, "")] * len(READS)
    assert all(each.stdout for each in ended)


@pytest.mark.parametrize("name", ["CLAUDECODE", "AI_AGENT", "TOOLBUS_JUDGED"])
def test_a_variable_of_an_agent_refuses(place, name):
    _, env = place

    shown = below_new_terminal(TRUST, env, **{name: "1"})

    assert f"the variable {name} says that an agent runs this" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", "claude-code"),
        ("node gemini", "gemini-cli"),
        ("pi title", "pi"),
        ("toolbus proxy", "toolbus proxy"),
    ],
)
def test_below_an_agent_it_is_refused(place, tmp_path, name, said):
    _, env = place
    first, _, second = name.partition(" ")
    inner = [sys.executable, "-c", NEW_TERMINAL, *TRUST]
    host = tmp_path / "bin" / (second if first == "node" else first)
    host.parent.mkdir()
    host.write_text(f"import subprocess\nsubprocess.run({inner!r})\n")
    command = (
        [sys.executable, str(host), second] if first == "toolbus" else [sys.executable, str(host)]
    )
    if first not in {"node", "toolbus"}:
        # As a program that is one file: its interpreter has its name.
        program = host.with_name(f"{first}-program") if second else host
        host.rename(host.with_suffix(".txt"))
        program.symlink_to(sys.executable)
        title = f"{first} - project" if second else str(program)
        command = ["bash", "-c", f'exec -a "$0" {shlex.quote(str(program))} "$1"', title]
        command.append(str(host.with_suffix(".txt")))

    shown = below_new_terminal(command, env | {"PYTHONHOME": sys.base_prefix})

    assert f"only a person does this, at a terminal: {said!r} (process " in shown


def below_new_terminal(command, env, **variables):
    """Return what *command* shows on a new terminal, without what says that an agent runs us."""
    ended = subprocess.run(
        [sys.executable, "-c", NEW_TERMINAL, *command],
        env=without_agents(env) | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout


def test_what_was_typed_before_is_no_answer(place, tmp_path):
    project, env = place

    with Terminal(["hosts", "install", "gemini-cli"], cwd=project, env=env) as person:
        person.type("y\n")
        person.expect("write this? [y/N] ")
        person.type("n\n")
        assert person.end()[0] == 1

    assert not (tmp_path / ".gemini").exists()


SHELL = """
import asyncio, ctypes, fcntl, os, sys, termios
from toolbus import EventBus, ToolRunner
from toolbus.workspace.shell_tool import ShellTool

async def say():
    bus, tool = EventBus(), ShellTool()
    async with tool.installed(bus):
        runner = ToolRunner(bus, tool.host.tools)
        for line in sys.argv[1:]:
            print((await runner.call("shell", {"command": line})).response.text)

# Root may type anywhere, unless it may not be what an administrator is (CAP_SYS_ADMIN).
ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) if sys.platform == "linux" else None
asyncio.run(say())
print("typed:", int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, bytes(4)), sys.byteorder))
"""


def test_a_model_s_shell_is_no_person(place, tmp_path):
    _, env = place
    trust = shlex.join(TRUST)
    on_terminal = shlex.join([sys.executable, "-c", NEW_TERMINAL, *TRUST])
    without = "exec env -u TOOLBUS_JUDGED"
    lines = [
        *(trust, f"{without} {trust}", f"{without} setsid -w {trust}", on_terminal),
        *(f"{without} {on_terminal}", f"{without} setsid -w {on_terminal}"),
    ]

    shown = below_new_terminal([sys.executable, "-c", SHELL, *lines], env)

    refusals = [line for line in shown.splitlines() if "only a person does this" in line]
    by_variable, by_shell = "the variable TOOLBUS_JUDGED", "'a shell that a model uses'"
    reasons = [by_variable, by_shell, by_shell, by_variable, by_shell, by_shell]
    assert len(refusals) == len(reasons)
    assert all(reason in line for reason, line in zip(reasons, refusals, strict=True))
    assert not (tmp_path / ".config").exists()


TYPES = """
import fcntl, os, sys, termios
number = os.open(sys.argv[1], os.O_RDWR)
for letter in b"y\\n":
    fcntl.ioctl(number, termios.TIOCSTI, bytes([letter]))
"""


def test_a_model_s_shell_reaches_no_terminal(place):
    _, env = place
    typing = shlex.join([sys.executable, "-c", TYPES])
    # What stands in the middle is run by a shell of the person's, so that the name is known.
    line = (
        'exec "$0" -c "$1" "true < /dev/tty; echo by name: \\$?" "$2 $(tty); echo by number: \\$?"'
    )

    shown = below_new_terminal(["sh", "-c", line, sys.executable, SHELL, typing], env)

    assert "by name: 0" not in shown
    assert "by number: 0" not in shown
    assert ("by name: " in shown, "by number: " in shown) == (True, True)
    assert "typed: 0" in shown


RECORDS = """
import os, runpy, sys
try:
    terminal = os.open("/dev/tty", os.O_RDWR)
except OSError:
    terminal = None
with open(sys.argv.pop(1), "a") as file:
    print(os.environ.get("TOOLBUS_JUDGED"), terminal, file=file)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
USES = """
import asyncio, sys
from toolbus.mcp import client

async def use():
    async with client.tools(sys.argv[1], sys.argv[2:]):
        pass

asyncio.run(use())
"""


def test_servers_are_marked_and_have_no_terminal(place):
    project, env = place
    recorded = project / "recorded.txt"
    server = [SERVER[0], "-c", RECORDS, str(recorded), *SERVER[1:]]

    below_new_terminal([sys.executable, "-c", USES, *server], env)
    run_as_person(["proxy", "--", *server], env=env, stdin=subprocess.DEVNULL, timeout=60)

    assert recorded.read_text() == "1 None\n" * 2

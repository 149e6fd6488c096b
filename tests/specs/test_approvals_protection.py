"""The scenarios of `specs/approvals_protection.md`."""

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.servers.terminal import Terminal, run_as_person, without_agents

import toolbus
from toolbus import Ask, EventBus, Scope, ToolCall, ToolRunner, Toolset, UserMessage, tool
from toolbus.approvals import StoredApprovals, answer, revoke_grant
from toolbus.approvals.records import questions_of
from toolbus.errors import StoreError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.policy import Policy
from toolbus.store import AppendRequest, PostgresStore, SqliteStore

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
    own = tmp_path / ".config/toolbus"
    own.mkdir(parents=True)
    (own / "toolbus.toml").write_text('[[component]]\nuse = "truncate-output"\n')
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


def test_a_command_without_a_terminal_is_refused(place, tmp_path):
    _, env = place
    ours, theirs = os.openpty()
    before = contents(tmp_path)

    ended = [run(words, env, stdin=theirs) for words in CHANGES]

    os.close(ours)
    os.close(theirs)
    assert [each.returncode for each in ended] == [2] * len(CHANGES)
    said = "error: this needs a person at an interactive terminal: "
    assert all(each.stderr.startswith(said) and not each.stdout for each in ended)
    assert contents(tmp_path) == before


@pytest.mark.full
def test_a_command_at_a_terminal_runs(place, tmp_path):
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


def test_a_command_in_the_background_is_refused(place):
    _, env = place
    line = f"set -m; {shlex.join(TRUST)} & wait $!; echo ended with $?"

    shown = below_new_terminal(["sh", "-c", line], env)

    assert "this process is in the background" in shown
    assert "ended with 2" in shown


@pytest.mark.full
def test_reading_needs_no_person(place):
    _, env = place
    assert run_as_person(CHANGES[-1], env=env, capture_output=True, check=False).returncode == 0

    ended = [run(words, env, stdin=subprocess.DEVNULL) for words in READS]

    assert [(each.returncode, each.stderr) for each in ended] == [(0, "")] * len(READS)
    assert all(each.stdout for each in ended)


@pytest.mark.parametrize("name", ["CLAUDECODE", "AI_AGENT", "TOOLBUS_JUDGED"])
def test_a_variable_of_an_agent_refuses(place, name):
    _, env = place

    shown = below_new_terminal(TRUST, env, **{name: "1"})

    assert f"the variable {name} marks a process of an agent" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", "claude-code"),
        ("node gemini", "gemini-cli"),
        ("pi title", "pi"),
        ("toolbus proxy", "toolbus proxy"),
    ],
)
def test_a_command_below_an_agent_is_refused(place, tmp_path, name, said):
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

    assert f"this needs a person at an interactive terminal: {said!r} (process " in shown


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


def test_earlier_typing_is_not_an_answer(place, tmp_path):
    project, env = place

    with Terminal(["hosts", "install", "pi"], cwd=project, env=env) as person:
        person.type("y\n")
        person.expect("write this? [y/N, v shows every line] ")
        person.type("n\n")
        assert person.end()[0] == 1

    assert not (tmp_path / ".pi").exists()


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


@pytest.mark.full
def test_a_model_s_shell_is_not_a_person(place, tmp_path):
    _, env = place
    trust = shlex.join(TRUST)
    on_terminal = shlex.join([sys.executable, "-c", NEW_TERMINAL, *TRUST])
    without = "exec env -u TOOLBUS_JUDGED"
    lines = [
        *(trust, f"{without} {trust}", f"{without} setsid -w {trust}", on_terminal),
        *(f"{without} {on_terminal}", f"{without} setsid -w {on_terminal}"),
    ]

    shown = below_new_terminal([sys.executable, "-c", SHELL, *lines], env)

    refusals = [line for line in shown.splitlines() if "this needs a person at" in line]
    by_variable, by_shell = "the variable TOOLBUS_JUDGED", "'a shell that a model uses'"
    reasons = [by_variable, by_shell, by_shell, by_variable, by_shell, by_shell]
    assert len(refusals) == len(reasons)
    assert all(reason in line for reason, line in zip(reasons, refusals, strict=True))
    assert not (tmp_path / ".config/toolbus/trusted.json").exists()


# What starts it has ended before it goes on, and its environment says nothing of an agent.
ORPHAN = """\
#!/bin/sh
while kill -0 $1 2>/dev/null; do :; done
{} >said 2>&1
: >over
"""
LEAVES_ORPHAN = """
env -i {} sh -c 'setsid -f ./orphan $$'
until [ -e over ]; do sleep 0.05; done; cat said
"""


def test_an_orphan_of_a_model_s_shell_is_refused(place, tmp_path):
    _, env = place
    kept = shlex.join(f"{name}={env[name]}" for name in ("HOME", "PATH", "PYTHONPATH"))
    answering = shlex.join([sys.executable, "-c", NEW_TERMINAL, *TRUST])
    Path("orphan").write_text(ORPHAN.format(answering))
    Path("orphan").chmod(0o700)

    shown = below_new_terminal([sys.executable, "-c", SHELL, LEAVES_ORPHAN.format(kept)], env)

    assert "'a shell that a model uses' (process " in shown
    assert not (tmp_path / ".config/toolbus/trusted.json").exists()


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


@pytest.mark.full
def test_servers_are_marked_and_have_no_terminal(place):
    project, env = place
    recorded = project / "recorded.txt"
    server = [SERVER[0], "-c", RECORDS, str(recorded), *SERVER[1:]]

    below_new_terminal([sys.executable, "-c", USES, *server], env)
    run_as_person(["proxy", "--", *server], env=env, stdin=subprocess.DEVNULL, timeout=60)

    assert recorded.read_text() == "1 None\n" * 2


class Paying:
    """A program whose guard asks about each call of its tool `pay`, on a store at *address*."""

    def __init__(self, address):
        self.effects, self.store = [], PostgresStore(address)
        bus = EventBus()
        bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("pay it?"), name="till")

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            self.effects.append(amount)
            return "paid"

        approvals = StoredApprovals(store=self.store)
        self._runner = ToolRunner(bus, Toolset([pay]), Scope(session_id="s"), approver=approvals)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.store.close()

    async def pay(self, amount):
        return (await self._runner.call("pay", {"amount": amount})).status

    async def answer(self, store=None, **options):
        """Answer the latest question, as whoever *store* belongs to."""
        question = (await questions_of(self.store, "s"))[-1]
        fields = {"approve": True, "by": "ann"} | options
        return await answer(store or self.store, question.id, question.digest, **fields)

    async def states(self):
        return [question.state for question in await questions_of(self.store, "s")]


@pytest.fixture
def program_role(postgres, database):
    """Return the address of *database* for a role that may write a store, and owns nothing."""

    async def make():
        async with PostgresStore(database) as store:
            await store.append("s", AppendRequest(message=UserMessage(content="go")))

    asyncio.run(make())
    name = urlsplit(database).path.removeprefix("/")
    role = f"program_{name}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA toolbus TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA toolbus TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA toolbus TO {role}",
    ):
        postgres.execute(statement, name)
    return database.replace("//postgres@", f"//{role}@")


@pytest.fixture
def approver_role(postgres):
    """Make the role that answers; the owner of a server counts as a member."""
    postgres.execute("CREATE ROLE toolbus_approver")
    yield
    postgres.execute("DROP ROLE toolbus_approver")


BODY = "convert_from(one.body, 'UTF8')"


def rewritten(new, name="question:%"):
    """Return the SQL that puts *new*, in terms of the row `one`, in the place of a body."""
    row = f"(SELECT * FROM toolbus.states WHERE name LIKE '{name}') AS one"
    return (
        f"UPDATE toolbus.states SET body = convert_to(({new})::text, 'UTF8') FROM {row} "
        "WHERE states.name = one.name AND states.session = one.session"
    )


def inserted(name, new):
    """Return the SQL that writes a row called *name* beside the question."""
    return (
        "INSERT INTO toolbus.states (session, name, version, checksum, body) "
        f"SELECT session, '{name}', version, checksum, convert_to(({new})::text, 'UTF8') "
        "FROM toolbus.states AS one WHERE name LIKE 'question:%'"
    )


def begun_with(fields):
    """Return the SQL of the question's body with more *fields*, as text."""
    return f"""'{{{fields},' || substr({BODY}, 2)"""


APPROVED = begun_with('"state":"approved","answered_by":"ann"')
FORGERIES = {
    "an answer": rewritten(APPROVED),
    "a denial": rewritten(begun_with('"state":"denied"')),
    "taken": rewritten(begun_with('"state":"taken"')),
    "two states": rewritten(begun_with('"state":"pending","state":"approved"')),
    "two states, turned round": rewritten(begun_with('"state":"approved","state":"pending"')),
    "an escaped name": rewritten(begun_with(r'"st\u0061te":"approved"')),
    "another call": rewritten(f"""{BODY}::jsonb || '{{"arguments": {{"amount": 9}}}}'"""),
    "no JSON": rewritten(f"{BODY} || 'x'"),
    "a grant that there is not": rewritten(begun_with('"state":"approved","grant":"x"')),
    "a new one": inserted("question:x", APPROVED),
    "a grant": inserted("grant:x", BODY),
    "a pointer to a grant": inserted("granted:x", "'1'"),
    "another name": "UPDATE toolbus.states SET name = 'grant:x' WHERE name LIKE 'question:%'",
    "an innocent name": "UPDATE toolbus.states SET name = 'x' WHERE name LIKE 'question:%'",
    "own roles": "CREATE TEMP TABLE pg_roles (oid oid, rolname name); "
    f"SET search_path = pg_temp, pg_catalog; {rewritten(APPROVED)}",
    "the trigger": "ALTER TABLE toolbus.states DISABLE TRIGGER check_answer",
    "the role": "SET ROLE toolbus_approver",
    "the function": "CREATE OR REPLACE FUNCTION toolbus.check_answer() RETURNS trigger "
    "LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "replication": f"SET session_replication_role = replica; {rewritten(APPROVED)}",
}


def forge(address, statement):
    """Run a *statement*, and return the code of the error that it ends with, None without one."""
    with psycopg.connect(address, autocommit=True) as connection:
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            return error.sqlstate
    return None


@pytest.mark.full
async def test_only_members_of_the_role_answer(database, program_role, approver_role):
    async with Paying(program_role) as program, PostgresStore(database) as member:
        assert await program.pay(1) == "pending"

        with pytest.raises(StoreError, match="only a member of the role toolbus_approver may"):
            await program.answer()
        codes = {what: forge(program_role, forgery) for what, forgery in FORGERIES.items()}
        # Refused by the trigger, as no JSON, or because the role may not do such things.
        assert [
            what for what, code in codes.items() if code not in {"TB002", "22P02", "42501"}
        ] == []
        assert codes["own roles"] == codes["an answer"] == "TB002"
        assert await program.states() == ["pending"]

        assert (await program.answer(member)).status == "accepted"
        assert forge(program_role, FORGERIES["another call"]) == "TB002"
        assert [await program.pay(1), await program.pay(1)] == ["ok", "pending"]
        assert program.effects == [1]
        assert await program.states() == ["done", "pending"]


@pytest.mark.full
async def test_a_member_s_grant_applies_to_other_roles(database, program_role, approver_role):
    async with Paying(program_role) as program, PostgresStore(database) as member:
        await program.pay(1)
        grant = (await program.answer(member, grant="session")).grant

        assert [await program.pay(amount) for amount in (1, 2, 3)] == ["ok"] * 3
        await revoke_grant(member, "s", grant.id, by="ann")
        in_force = rewritten(f"{BODY}::jsonb - 'revoked_ns' - 'revoked_by'", "grant:%")
        assert forge(program_role, in_force) == "TB002"
        assert await program.pay(4) == "pending"
        used = f'"state":"approved","answered_by":"ann","grant":"{grant.id}"'
        waiting = rewritten(begun_with(used)) + " AND convert_from(one.body, 'UTF8') !~ '\"state\"'"
        assert forge(program_role, waiting) == "TB002"

    assert program.effects == [1, 2, 3]


@pytest.mark.full
async def test_no_role_means_no_check(program_role):
    async with Paying(program_role) as program:
        await program.pay(1)

        assert (await program.answer()).status == "accepted"
        assert await program.pay(1) == "ok"


ALLOWS_ALL = """default = "allow"
folder = "."
[[rule]]
name = "all of it"
verdict = "allow"
command = ["toolbus", "tmux", "cat", "cp", "script", "sqlite3", "rm"]
"""
SPOKEN = [
    "toolbus approvals approve 8c01",
    "python -m toolbus approvals deny 8c01",
    "env -i script -qec 'toolbus approvals approve 8c01' /dev/null",
    "tmux send-keys -t 0 'toolbus approvals approve 8c01' Enter",
    "cat ~/.config/toolbus/approvals.secret",
    "cp -r ~/.local/state/toolbus/logins here",
    "echo x > ~/.config/toolbus/approvals.secret",
    "cat ~/.local/state/toolbus/hidden-values.key",
    "cp x ~/.local/state/toolbus/hidden-values.key",
    "cat ~/.config/toolbus/store.key",
    "rm s.db",
    "sqlite3 s.db 'update states set body = 1'",
]


async def test_a_person_s_command_is_always_denied(place, tmp_path, monkeypatch):
    project, _ = place
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    own = ".local/state/toolbus"
    for secret in (
        *(".config/toolbus/approvals.secret", ".config/toolbus/store.key"),
        *(f"{own}/logins/a.json", f"{own}/hidden-values.key"),
    ):
        (tmp_path / secret).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / secret).write_text("secret")
    (project / "rules.toml").write_text(ALLOWS_ALL)
    async with SqliteStore(project / "s.db") as store:
        await store.append("s", AppendRequest(message=UserMessage(content="go")))
    policy, bus = Policy.read("rules.toml"), EventBus()

    denied = {}
    async with policy.installed(bus):
        for line in [*SPOKEN, "ls"]:
            call = ToolCall(id="c", name="shell", arguments={"command": line})
            context = await bus.apply(TOOL_CALL_BEFORE, call, scope=Scope(session_id="s"))
            denied[line] = context.denied.reason if context.denied else ""

        printed = ToolCall(
            id="c", name="shell", arguments={"command": "printf 'toolbus trust' | sh"}
        )
        context = await bus.apply(TOOL_CALL_BEFORE, printed, scope=Scope(session_id="s"))

    assert [
        line for line, reason in denied.items() if "a protection that no rule lifts" not in reason
    ] == ["ls"]
    assert context.asked

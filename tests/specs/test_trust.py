"""The scenarios of `specs/trust.md`."""

import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from textwrap import dedent

import pytest
from tests.servers.terminal import run_as_person

from toolbus import Agent, ToolCall, UserMessage, tool
from toolbus.cli import main
from toolbus.config import find, load
from toolbus.errors import ConfigurationError, LoadError
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.messages.records import AssistantMessage, ToolMessage, ToolResponse
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore

IMPORTS = "from toolbus import AgentComponent, Deny, ToolResponse, events, guard, on\n"
COMPONENT = '[[component]]\nuse = "./{}"\n'
PLAIN = "class Plain(AgentComponent): ...\n"
STRANGER = 54_321
SERVER = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    result = {"content": [{"type": "text", "text": "the server's"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
"""
NEVER = """
class Never(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Deny("never, by my own guard")
"""


class Place:
    """The folders of a test: the project in which we are, and that of the user's own."""

    def __init__(self, here, own):
        self.here, self.own, self.mark = here, own, here / "ran"

    def write(self, name, text, folder=None):
        """Write a file and return it; one of Python that is hostile leaves a mark."""
        file = (folder or self.here) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = dedent(text)
        file.write_text(IMPORTS + text if name.endswith(".py") else text)
        return file

    def project(self, text, python=None, **files):
        """Write a `toolbus.toml` that names `policy.py`, and files of Python."""
        if python is not None:
            files["policy"] = python
            text = COMPONENT.format("policy.py") + text
        for name, source in files.items():
            self.write(f"{name}.py", source)
        return self.write("toolbus.toml", text)

    def hostile(self):
        """Be in a repository whose modules tell that they ran."""
        (self.here / ".git").mkdir()
        leave = f"import pathlib; pathlib.Path({str(self.mark)!r}).touch()\n"
        return self.project("", f"{leave}{PLAIN}", helper=leave, json=leave)

    def guarded(self, python=NEVER):
        """Write a configuration of the user's own, with a component."""
        self.write("mine.py", python, self.own)
        return self.write("toolbus.toml", COMPONENT.format("mine.py"), self.own)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Return empty folders, of which `here` is the current one; finders are forgotten."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    monkeypatch.setattr(sys, "path", sys.path[:])
    return Place(here, tmp_path / "config/toolbus")


@pytest.fixture
def trust(capsys, as_person):
    """Return a function that trusts a file, as its person would, and returns what it prints."""

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main(["trust", *map(str, arguments)]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return run


@pytest.fixture
def owned(monkeypatch):
    """Return a function that makes a file another user's, for whoever asks for its status."""
    owners, stat, lstat = {}, os.stat, os.lstat

    def asked(ask):
        def status(path, *arguments, **options):
            found = ask(path, *arguments, **options)
            if str(path) not in owners:
                return found
            return os.stat_result([*found[:4], owners[str(path)], *found[5:10]])

        return status

    monkeypatch.setattr(os, "stat", asked(stat))
    monkeypatch.setattr(os, "lstat", asked(lstat))

    def give(file, owner=STRANGER):
        owners[str(file)] = owner

    return give


@pytest.fixture
def log(place):
    """Return the name of a recorded session with one call."""
    call = ToolCall(id="c", name="look", arguments={})
    response = ToolResponse.from_text("done")
    messages = [
        AssistantMessage(id="a", tool_calls=(call,)),
        ToolMessage(id="t", tool_call_id="c", tool_name="look", tool_response=response),
    ]
    lines = [HeaderLine(), SessionLine(id="s"), *[MessageLine(message=each) for each in messages]]
    lines.append(EndLine(messages=2, records=0))
    (place.here / "log.jsonl").write_bytes(b"".join(map(encode_line, lines)))
    return "log.jsonl"


@pytest.fixture
def proxied(place, environment, tmp_path):
    """Return a function that makes a call through a proxy: its answer, its exit code and stderr."""

    def run(*options):
        server = tmp_path / "server.py"
        server.write_text(SERVER)
        with subprocess.Popen(
            [sys.executable, "-m", "toolbus", "proxy", *options, "--", sys.executable, server],
            cwd=place.here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            params = {"name": "look", "arguments": {}}
            frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            with contextmanager(closing_pipe)(process) as stdin:
                stdin.write(json.dumps(frame) + "\n")
                stdin.flush()
                answer = process.stdout.readline()
            _, err = process.communicate(timeout=60)
        return answer, process.returncode, err

    return run


def closing_pipe(process):
    """Give the standard input of *process*; who has left reads nothing."""
    try:
        yield process.stdin
    except BrokenPipeError:
        pass
    finally:
        process.stdin = None if process.stdin.closed else process.stdin


def names(components):
    return [type(each).__name__ for each in components]


def refused(file=None):
    """Return why nothing is in force."""
    with pytest.raises(LoadError) as caught:
        load(file)
    return str(caught.value)


@tool
def look() -> str:
    """Look."""
    return "seen"


async def looked(components, **options):
    """Return how a call ended with *components*, and the agent."""
    async with Agent(ScriptedModel([]), tools=[look], components=components, **options) as agent:
        return await agent.call_tool("look"), agent


@pytest.mark.parametrize("kind", ["folder", "file"])
async def test_the_search_ends_at_the_repository_s_root(place, monkeypatch, kind):
    place.write("toolbus.toml", "")
    root, inside = place.here / "root", place.here / "root/a/b"
    inside.mkdir(parents=True)
    near = place.write("toolbus.toml", "", root)
    (root / ".git").mkdir() if kind == "folder" else (root / ".git").write_text("gitdir: /x\n")
    monkeypatch.chdir(inside)

    first = find()
    near.unlink()

    assert first == near
    assert find() is None


async def test_the_search_ends_at_the_home_folder(place, monkeypatch):
    place.write("toolbus.toml", "")
    home, below = place.here / "home", place.here / "home/a/b"
    below.mkdir(parents=True)
    near = place.write("toolbus.toml", "", home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(below)

    first = find()
    near.unlink()

    assert first == near
    assert find() is None


async def test_elsewhere_only_the_current_folder_counts(place, monkeypatch):
    place.write("toolbus.toml", "")
    (place.here / "below").mkdir()
    monkeypatch.chdir(place.here / "below")

    first = find()
    place.write("below/toolbus.toml", "")

    assert first is None
    assert find() == Path("toolbus.toml")


async def test_another_user_s_repository_does_not_end_the_search(place, monkeypatch, owned):
    place.write("toolbus.toml", "")
    (place.here / ".git").mkdir()
    owned(place.here / ".git")
    (place.here / "mine").mkdir()
    monkeypatch.chdir(place.here / "mine")

    assert find() is None


async def test_another_user_s_file_is_refused(place, trust, owned):
    file = place.hostile()
    owned(file)

    for error in (refused(), trust("toolbus.toml", code=2)):
        assert f"{file}: refused: it belongs to user {STRANGER}; " in error
    assert not place.mark.exists()


@pytest.mark.parametrize(
    ("path", "mode", "reason"),
    [
        ("toolbus.toml", 0o646, "others may write it (mode 646)"),
        ("toolbus.toml", 0o664, "others may write it (mode 664)"),
        ("", 0o757, "others may write its folder "),
    ],
)
async def test_a_file_writable_by_other_users_is_refused(place, trust, path, mode, reason):
    file = place.hostile()
    trust()
    os.chown(place.here / path, -1, os.getgroups()[0] if os.geteuid() else STRANGER)
    (place.here / path).chmod(mode)

    for error in (refused(), trust(code=2)):
        assert f"{file}: refused: {reason}" in error
    assert not place.mark.exists()


async def test_a_sticky_folder_can_be_shared(place, trust, monkeypatch):
    place.here.chmod(0o1777)
    place.write("mine/policy.py", PLAIN)
    place.write("mine/toolbus.toml", COMPONENT.format("policy.py"))
    monkeypatch.chdir(place.here / "mine")
    trust()

    assert names(load()) == ["Plain"]


async def test_a_named_file_writable_by_others_is_refused(place, trust):
    file = place.hostile()
    trust()
    (place.here / "policy.py").chmod(0o646)

    assert refused().startswith(f"{file}: refused: it names '{place.here}/policy.py', and others")
    assert not place.mark.exists()


async def test_the_user_s_own_file_is_checked_too(place):
    file = place.guarded(f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\n{NEVER}")

    (place.own / "mine.py").chmod(0o646)
    named = refused()
    file.chmod(0o646)

    assert named.startswith(
        f"{file}: refused: it names '{place.own}/mine.py', and others may write"
    )
    assert refused().startswith(f"{file}: refused: others may write it")
    assert not place.mark.exists()


async def test_a_hostile_repository_runs_nothing(place, command, proxied, log):
    file = place.hostile()

    handlers, replay = command("handlers"), command("replay", log)
    answer, code, err = proxied()

    assert (handlers.returncode, handlers.stdout) == (2, "")
    assert (replay.returncode, replay.stdout) == (2, "")
    assert ("the server's" in answer, code) == (True, 0)
    for text in (handlers.stderr, replay.stderr, err):
        assert text.count("is not trusted, so it is not active") == 1
        assert f"toolbus trust {file}\n" in text
    assert not place.mark.exists()


async def test_the_user_s_own_configuration_applies(place, command, proxied, log, capsys):
    place.hostile()
    place.guarded()

    outcome, _ = await looked(load())
    load()
    notice = capsys.readouterr().err
    handlers, replay = command("handlers"), command("replay", log, "--json")
    answer, _, err = proxied()

    assert outcome.status == "denied"
    assert "Never.judge" in handlers.stdout
    assert json.loads(replay.stdout)["findings"][0]["outcome"] == "denied"
    assert "never, by my own guard" in answer
    for text in (notice, handlers.stderr, replay.stderr, err):
        assert text.count("is not trusted") == 1
        assert f"; your own {place.own}/toolbus.toml is active\n" in text
    assert not place.mark.exists()


async def test_an_untrusted_project_alone_loads_nothing(place):
    file = place.hostile()

    assert refused().endswith(f"; read it, then: toolbus trust {file}")


async def test_an_environment_file_is_never_read(place, command):
    folder = place.here / "theirs/toolbus"
    place.write(
        "mine.py", f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\n{PLAIN}", folder
    )
    place.write("toolbus.toml", COMPONENT.format("mine.py"), folder)
    place.write(".env", f"XDG_CONFIG_HOME={folder.parent}\nHOME={folder}\nPYTHONPATH={folder}\n")

    done = command("handlers")

    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no toolbus.toml" in done.stderr
    assert not place.mark.exists()


async def test_a_symlink_is_trusted_by_its_target(place, trust, monkeypatch):
    place.project("", PLAIN)
    trust()
    there = place.here / "there"
    place.write(
        "policy.py", f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\n{PLAIN}", there
    )
    (there / "toolbus.toml").symlink_to(place.here / "toolbus.toml")
    monkeypatch.chdir(there)

    (component,) = load()
    place.project("# other", PLAIN)

    assert sys.modules[type(component).__module__].__file__ == f"{place.here}/policy.py"
    assert refused().startswith(f"{place.here}/toolbus.toml is no longer trusted: tool")
    assert not place.mark.exists()


async def test_a_named_file_needs_no_trust(place, command, log):
    place.project("", f"{PLAIN}{NEVER}".replace(PLAIN, ""))

    (component,) = load("toolbus.toml")
    handlers = command("handlers", "--config", "toolbus.toml")
    replay = command("replay", log, "--with", "toolbus.toml", "--json")

    assert type(component).__name__ == "Never"
    assert ("Never.judge" in handlers.stdout, handlers.stderr) == (True, "")
    assert json.loads(replay.stdout)["findings"][0]["outcome"] == "denied"
    assert "is not trusted" in refused()


async def test_the_proxy_can_ignore_all_configurations(place, proxied):
    place.guarded()

    with_own, without = proxied(), proxied("--no-config")

    assert "never, by my own guard" in with_own[0]
    assert "the server's" in without[0]


async def test_a_change_ends_trust(place, trust):
    place.project('settings = { words = "words.txt" }\n', helper="LIMIT = 1\n", python="""
        from pathlib import Path
        from helper import LIMIT
        class Worded(AgentComponent):
            def __init__(self, words: Path): self.text, self.limit = words.read_text(), LIMIT
    """)  # fmt: skip
    place.write("words.txt", "one")
    trust()

    first = load()[0]
    seen = []
    for name, old, new in (
        ("words.txt", "one", "two"),
        ("helper.py", "1", "2"),
        ("policy.py", "self.limit = words.read_text(), LIMIT", "self.limit = 'new', LIMIT + 1"),
        ("toolbus.toml", "settings", "# more\nsettings"),
    ):
        file = place.here / name
        file.write_text(file.read_text().replace(old, new))
        assert f"is no longer trusted: {name} changed, so it is not active" in refused()
        trust()
        seen.append(vars(load()[0]).copy())

    assert (first.text, first.limit) == ("one", 1)
    assert seen[0] == {"text": "two", "limit": 1}
    assert seen[1] == {"text": "two", "limit": 2}
    assert seen[2] == seen[3] == {"text": "new", "limit": 3}


async def test_a_new_file_ends_trust(place, trust):
    place.project('settings = { words = "words.txt" }\n', """
        class Worded(AgentComponent):
            def __init__(self, words: str): ...
    """)  # fmt: skip
    trust()

    first = load()
    place.write("words.txt", "")

    assert names(first) == ["Worded"]
    assert "no longer trusted: words.txt changed" in refused()


async def test_a_changed_file_stops_the_proxy(place, trust, proxied):
    place.project("", NEVER)
    trust()

    answer, _, _ = proxied()
    place.project("enabled = false", NEVER)
    other = proxied()

    assert "never, by my own guard" in answer
    assert other[:2] == ("", 2)
    assert "is no longer trusted: toolbus.toml changed" in other[2]


async def test_a_swapped_module_does_not_run(place, trust, monkeypatch):
    place.project("", f"from helper import LIMIT\n{PLAIN}", helper="LIMIT = 1\n")
    trust()
    opened, theirs = (
        Path.open,
        f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\nLIMIT = 2\n",
    )

    def open_and_swap(path, *arguments, **options):
        stream = opened(path, *arguments, **options)
        if path.suffix == ".py" and arguments == ("rb",):
            with stream:
                stream = BytesIO(stream.read())
            path.write_bytes(theirs.encode() + stream.getvalue())
        return stream

    monkeypatch.setattr(Path, "open", open_and_swap)
    (component,) = load()

    assert sys.modules[type(component).__module__].LIMIT == 1
    for name in ("helper.py", "policy.py"):
        assert "LIMIT = 2" in (place.here / name).read_text()
    assert not place.mark.exists()


async def test_a_compiled_module_does_not_run(place, trust):
    place.project("", f"import helper\nLIMIT = helper.LIMIT\n{PLAIN}", helper="LIMIT = 1")
    file = place.here / "helper.py"
    status, text = file.stat(), file.read_text()
    file.write_text(text.replace("LIMIT = 1", "LIMIT = 2"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    py_compile.compile(str(file))
    file.write_text(text)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    trust()

    (component,) = load()
    plain = subprocess.run(
        [sys.executable, "-c", "import helper; print(helper.LIMIT)"],
        cwd=place.here,
        capture_output=True,
        text=True,
        check=True,
    )

    assert plain.stdout == "2\n"
    assert sys.modules[type(component).__module__].LIMIT == 1


async def test_a_hidden_import_is_refused(place, trust):
    hidden = "import importlib\nimportlib.import_module('conc' + 'ealed')\n"
    place.project(
        "",
        f"{hidden}{PLAIN}",
        concealed=f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\n",
    )
    trust()

    error = refused()
    ran = place.mark.exists()
    place.project("", f"{hidden}import concealed\n{PLAIN}")
    trust()

    assert (
        f"{place.here}/concealed.py is not trusted: only modules named by an `import` are; "
        in error
    )
    assert not ran
    assert names(load()) == ["Plain"]


async def test_nothing_shadows_the_standard_library(place, trust):
    place.project(
        "",
        f"import csv\n{PLAIN}",
        csv=f"import pathlib; pathlib.Path({str(place.mark)!r}).touch()\n",
    )

    report = trust()
    (component,) = load()

    assert "csv.py" not in report
    assert hasattr(sys.modules[type(component).__module__].csv, "DictReader")
    assert not place.mark.exists()


async def test_a_module_of_the_project_is_covered(place, trust, monkeypatch):
    monkeypatch.syspath_prepend(place.here / "lib")
    place.write("lib/trusted_rules/__init__.py", "")
    place.write("lib/trusted_rules/strict.py", f"from . import limits\n{PLAIN}")
    limits = place.write("lib/trusted_rules/limits.py", "LIMIT = 1")
    place.project('[[component]]\nuse = "trusted_rules.strict:Plain"')
    report = trust()

    first = load()
    limits.write_text("LIMIT = 2")

    assert names(first) == ["Plain"]
    assert re.findall(r"  (lib\S+)", report) == [
        "lib/trusted_rules/__init__.py",
        "lib/trusted_rules/strict.py",
        "lib/trusted_rules/limits.py",
    ]
    assert "no longer trusted: lib/trusted_rules/limits.py changed" in refused()


async def test_the_user_s_guard_is_not_disabled(place, trust):
    place.guarded()
    place.write("policy.py", NEVER.replace("never", "no"))
    place.project(f'{COMPONENT.format("policy.py")}name = "./mine.py"\nenabled = false\n')
    trust()

    components = load()
    outcome, _ = await looked(components)

    assert len(components) == 1
    assert outcome.status == "denied"


ORDERED = """
def note(text):
    with open("order", "a") as file: file.write(text)
class {}(AgentComponent):
    ran = []
    @on(events.TOOL_CALL_BEFORE, priority={})
    def rewrite(self, ctx): note("{} rewrites, ")
    @guard(events.TOOL_CALL_BEFORE, priority={})
    def judge(self, ctx): note("{} judges, ")
    @on(events.MESSAGE_APPEND_BEFORE, priority={})
    def read(self, ctx): note(f"{} reads {{ctx.value.role}}, ")
"""


async def test_the_user_s_handlers_come_first(place, trust, command):
    mine, theirs = ("Mine", 1, "mine", 1, "mine", 1, "mine"), ("Theirs", *([10**9, "theirs"] * 3))
    place.guarded(ORDERED.format(*mine))
    place.project("priority = 1_000_000", ORDERED.format(*theirs))
    trust()

    components = load()
    await looked(components)
    handlers = command("handlers")

    assert names(components) == ["Mine", "Theirs"]
    assert (place.here / "order").read_text() == (
        "mine reads assistant, theirs reads assistant, mine rewrites, theirs rewrites, "
        "mine judges, theirs judges, mine reads tool, theirs reads tool, "
    )
    order = re.findall(r"(Mine|Theirs)\.(?!_on)(\w+)", handlers.stdout)
    assert [each for each in order if each[1] == "judge"] == [
        ("Mine", "judge"),
        ("Theirs", "judge"),
    ]
    assert order.index(("Mine", "rewrite")) < order.index(("Theirs", "rewrite"))


async def test_the_project_does_not_answer_first(place, trust):
    place.guarded("""
        class Counts(AgentComponent):
            calls = 0
            @on(events.TOOL_CALL_BEFORE, priority=-5_000)
            def count(self, ctx): self.calls += 1
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx): return Deny("judged")
    """)
    place.project("priority = 9_999_999", """
        class Answers(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def answer(self, ctx): return ToolResponse.from_text("answered")
    """)  # fmt: skip
    trust()
    components = load()

    outcome, _ = await looked(components)

    assert components[0].calls == 1
    assert outcome.status == "denied"


async def test_the_last_redaction_stays_last(place, trust):
    key = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    place.write("toolbus.toml", '[[component]]\nuse = "redact-secrets"', place.own)
    place.project("", f"""
        from msgspec.structs import replace
        class Leaks(AgentComponent):
            @on(events.MESSAGE_PERSIST_BEFORE)
            def leak(self, ctx): return replace(ctx.value, content="{key}")
    """)  # fmt: skip
    trust()
    store = MemoryStore()

    async with Agent(ScriptedModel([]), components=load(), store=store) as agent:
        await agent.append(UserMessage(id="u", content="hello"))
        (session,) = await store.sessions()
        rows = [repr(row) for row in await store.read(session.id)]

    assert len(rows) == 1
    assert "hello" not in rows[0]
    assert key not in rows[0]


async def test_a_project_s_own_setup_is_refused(place, trust):
    place.guarded()
    file = place.project("", f"{PLAIN}    def setup(self, agent): super().setup(agent)\n".replace(
        "...\n", "\n"))  # fmt: skip
    trust()

    assert refused() == (
        f"{file}:2: component 'Plain': it overrides `setup`, "
        "whose handlers could run before your own components"
    )


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("vault = true", 4),
        ("deep = { list = [{ Base-URL = 'http://x' }] }", 4),
        ("where = 'http://x'", 4),
    ],
)
async def test_personal_settings_are_refused(place, trust, setting, line):
    file = place.project(f"[component.settings]\n{setting}", """
        class Keyed(AgentComponent):
            personal_settings = ("where",)
            def __init__(self, vault=False, deep=None, where=""): ...
    """)  # fmt: skip
    trust()

    error = refused()

    assert error.startswith(f"{file}:{line}: component './policy.py': setting '")
    assert "may not be set by a project; put the component into your own configuration" in error
    assert names(load("toolbus.toml")) == ["Keyed"]


async def test_the_user_s_configuration_meets_a_requirement(place, trust):
    place.write("toolbus.toml", '[[component]]\nuse = "truncate-output"', place.own)
    place.project("priority = 900", """
        from toolbus.truncation.truncate_output import TruncateOutput
        class Needs(AgentComponent): requires = (TruncateOutput,)
    """)  # fmt: skip
    trust()

    assert names(load()) == ["TruncateOutput", "Needs"]


async def test_the_trusted_contents_are_shown(place, trust):
    file = place.hostile()
    place.write("words.txt", "one")
    file.write_text(f'{file.read_text()}settings = {{ words = "./words.txt" }}\n')

    shown = trust("--dry-run")
    before = refused()
    report = trust()

    assert "is not trusted, so" in before
    assert shown.splitlines()[:-1] == report.splitlines()[:-1]
    assert re.search(r"\n +1  \./policy\.py +toolbus\.toml:1\n", report)
    assert re.findall(r"\n  [0-9a-f]{16}  (\S+)", report) == [
        "toolbus.toml",
        "policy.py",
        "words.txt",
    ]
    assert (shown.splitlines()[-1], report.splitlines()[-1]) == (
        "not trusted",
        "✓ trusted, until one of 3 files changes",
    )
    assert not place.mark.exists()


async def test_telemetry_of_a_project_is_not_trusted(place, trust):
    place.write("toolbus.toml", '[otel]\nendpoint = "http://example.com"\n')

    error = trust(code=2)

    assert "toolbus.toml:1: [otel] may not be set by a project" in error
    assert trust("--list") == "no file is trusted\n"


async def test_json_has_the_digests(place, trust):
    file = place.project("", PLAIN)

    report, states = json.loads(trust("--json")), json.loads(trust("--list", "--json"))

    assert (report["file"], report["trusted"]) == (str(file), True)
    assert report["components"][0]["use"] == "./policy.py"
    assert set(report["digests"]) == {str(file), f"{place.here}/policy.py"}
    assert states == [{"file": str(file), "trusted": True, "reason": ""}]


async def test_servers_are_shown_before_they_start(place, trust):
    place.write(
        "toolbus.toml",
        """
        [[server]]
        name = "files"
        command = "serve"
        args = ["a b", "\\u001b[2J"]
        env = {PATH = "/tmp"}
        [[server]]
        name = "wiki"
        url = "https://example.com/mcp"
        headers = {X-Key = "env:TOKEN"}
        resources = ["wiki://*"]
        """,
    )

    shown, report = trust(), json.loads(trust("--json"))

    assert "  files: PATH=/tmp serve 'a b' '\N{REPLACEMENT CHARACTER}[2J'\n" in shown
    assert "  wiki: https://example.com/mcp 'X-Key: env:TOKEN' (claims 'wiki://*')\n" in shown
    assert report["servers"] == {
        "files": "PATH=/tmp serve 'a b' '\x1b[2J'",
        "wiki": "https://example.com/mcp 'X-Key: env:TOKEN' (claims 'wiki://*')",
    }


async def test_the_list_names_changes(place, trust):
    empty = trust("--list")
    for name in ("a", "b", "c"):
        place.write(f"{name}/policy.py", PLAIN)
        trust(place.write(f"{name}/toolbus.toml", COMPONENT.format("policy.py")))
    place.write("b/policy.py", f"{PLAIN}# more")
    shutil.rmtree(place.here / "c")

    lines = trust("--list").splitlines()

    assert empty == "no file is trusted\n"
    assert lines[::2] == [f"{place.here}/{name}/toolbus.toml" for name in ("a", "b", "c")]
    assert lines[1:4:2] == ["  trusted", "  not trusted: policy.py changed"]
    assert lines[5].startswith("  not trusted: there is no such file")


async def test_trust_is_revoked(place, trust):
    file = place.project("", PLAIN)
    trust()

    first, again = trust("--revoke"), main(["trust", "--revoke"])

    assert first == f"{file} is no longer trusted\n"
    assert again == 1
    assert "is not trusted, so" in refused()


async def test_the_list_is_private(place, trust):
    place.project("", PLAIN)
    before = os.umask(0)
    try:
        trust()
    finally:
        os.umask(before)
    trusted = place.own / "trusted.json"

    mode = trusted.stat().st_mode & 0o7777
    trusted.chmod(0o644)
    loose = refused(), trust(code=2)
    trusted.chmod(0o600)
    trusted.rename(place.here / "theirs.json")
    trusted.symlink_to(place.here / "theirs.json")
    linked = refused(), trust(code=2)

    assert mode == 0o600
    assert all(f"{trusted}: refused: others may use it (mode 644)" in each for each in loose)
    assert all(f"{trusted}: it cannot be opened: " in each for each in linked)


async def test_a_broken_list_trusts_nothing(place):
    place.project("", PLAIN)
    place.own.mkdir(parents=True)
    trusted = place.own / "trusted.json"
    trusted.touch(0o600)

    for text, reason in (
        ("{", "expected a list of trusted files: "),
        ('{"version": 1, "files": 3}', "expected a list of trusted files: "),
        ('{"version": 9, "files": {}}', "version 9 is newer than version 1; update toolbus"),
    ):
        trusted.write_text(text)
        with pytest.raises(ConfigurationError, match=f"^{re.escape(f'{trusted}: {reason}')}"):
            load()


@pytest.mark.full
async def test_concurrent_changes_are_kept(place, environment, trust):
    files = [place.write(f"{number}/toolbus.toml", "") for number in range(8)]

    with ThreadPoolExecutor(len(files)) as pool:
        trusting = partial(run_as_person, env=environment, stdout=subprocess.DEVNULL)
        codes = [
            done.returncode for done in pool.map(trusting, [["trust", each] for each in files])
        ]

    assert codes == [0] * 8
    assert {each["file"] for each in json.loads(trust("--list", "--json"))} == set(map(str, files))

"""The scenarios of `specs/policy_projects.md`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolbus import Agent, AssistantMessage, EventBus, Scope, ToolCall, tool
from toolbus.cli import main
from toolbus.errors import LoadError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.hosts.doctor.trials import sample_event
from toolbus.hosts.install.host_files import HOSTS
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.policy.rules.policy_file import read_policy

POLICY = """\
project = "session"
coding_agents = true
[tools.put]
writes = ["path"]
effects = ["write"]
[[rule]]
name = "inside"
verdict = "allow"
effects = ["read", "write"]
reads = ["./**"]
writes = ["./**"]
[[rule]]
name = "secret"
verdict = "deny"
touches = ["./secret/**"]
"""


class Place:
    """A home folder, two projects in it, and a policy in a folder of its own."""

    def __init__(self, base):
        self.home = base / "home"
        self.one, self.two = self.home / "code/one", self.home / "code/two"
        self.own = self.home / ".config/toolbus"
        self.shared = base / "shared"
        for folder in (self.one, self.two, self.shared, base / "rules"):
            (folder / "secret").mkdir(parents=True)
        self.shared.chmod(0o1777)
        self.file = base / "rules/policy.toml"
        self.file.write_text(POLICY)
        self.store = base / "hooks.db"
        self.policy = Policy.read(self.file)

    async def asked(self, path, project, *, tool="put", folder="", **settings):
        """Return the verdict on a call that writes *path*, and what is said of it."""
        policy = Policy(project="session", **settings) if settings else self.policy
        scope = Scope(session_id="s", folder=str(folder), project=str(project))
        call = ToolCall(id="c", name=tool, arguments={"path": str(path)})
        bus = EventBus()
        async with policy.installed(bus):
            context = await bus.apply(TOOL_CALL_BEFORE, call, scope=scope)
        if context.denied:
            return "deny", context.denied.reason
        return ("ask", context.asked) if context.asked else ("allow", "")

    async def verdict(self, path, project, **facts):
        return (await self.asked(path, project, **facts))[0]

    def own_policy(self, text=POLICY):
        """Put a policy in force for all sessions of hooks."""
        self.own.mkdir(parents=True, exist_ok=True)
        (self.own / "policy.toml").write_text(text)
        self.name_own()

    def name_own(self):
        component = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
        (self.own / "toolbus.toml").write_text(component)

    def hook(self, host, folder, command, number=""):
        """Return what *host* is told of a command in *folder*."""
        event = json.loads(json.dumps(sample_event(host, folder)))
        (key,) = {"tool_input", "toolArgs", "arguments"} & event.keys()
        event[key] = {"command": command}
        names = {"tool_use_id", "tool_call_id", "call_id"} & event.keys()
        event |= dict.fromkeys(names, f"{command}{number}")
        data, settings = json.dumps(event).encode(), HookSettings(store=self.store)
        return answer(host, HOSTS[host].tool_events[0], data, settings).stdout


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    made = Place(tmp_path)
    monkeypatch.chdir(made.one)
    return made


# --- a project is where its session began --------------------------------------------------------


async def test_paths_begin_where_the_session_began(place):
    for mine, other in ((place.one, place.two), (place.two, place.one)):
        paths = (mine / "a", other / "a", place.file.parent / "a", mine / "secret/x")

        told = [await place.verdict(path, mine) for path in (*paths, other / "secret/x")]

        assert told == ["allow", "ask", "ask", "deny", "ask"]


async def test_a_changed_folder_moves_no_project(place):
    (place.one / "src").mkdir()
    for folder in (place.one, place.one / "src", place.two):
        relative = ("a", "../../one/a")
        told = [await place.verdict(path, place.one, folder=folder) for path in relative]
        same = [await place.verdict(place.one / name, place.one, folder=folder) for name in "ab"]

        expected = {"one": ["allow", "ask"], "src": ["allow", "allow"], "two": ["ask", "ask"]}
        assert told == expected[folder.name]
        assert same == ["allow", "allow"]


async def test_agents_work_where_their_process_began(place, monkeypatch):
    def put(path: str) -> str:
        """Put a file there."""
        written.append(path)
        return "done"

    def asking(*paths):
        calls = [ToolCall(id=path, name="put", arguments={"path": path}) for path in paths]
        return AssistantMessage(tool_calls=tuple(calls))

    written, inside = [], [str(place.one / name) for name in "be"]
    first, second = asking("a", inside[0], "../two/c"), asking("d", inside[1])
    model = ScriptedModel([first, "ok", second, "ok"])
    async with Agent(model, tools=[tool(put)], components=[Policy.read(place.file)]) as agent:
        await agent.run("go")
        monkeypatch.chdir(place.two)
        await agent.run("go")

    assert sorted(written) == sorted(["a", *inside])


async def test_parent_folders_never_widen_a_project(place):
    above = place.one.parent
    (above / ".git").mkdir()
    (place.one / ".git").write_text(f"gitdir: {place.two}/.git/worktrees/one\n")

    told = [await place.verdict(folder / "a", place.one) for folder in (above, place.two)]

    assert told == ["ask", "ask"]
    assert await place.verdict(place.one / "a", place.one) == "allow"


# --- some folders are no project -----------------------------------------------------------------


async def test_the_home_folder_allows_nothing_silently(place, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(place.home)
    why = {
        Path("/"): "that is the root of the file system",
        place.home.parent: "it contains the home folder",
        place.home: "that is the home folder",
        link: "a link has replaced it",
        place.shared: "all users share that folder",
    }
    for folder, reason in why.items():
        verdict, question = await place.asked(folder / "a", folder)
        denied = await place.verdict(folder / "secret/x", folder)

        assert (verdict, denied) == ("ask", "deny"), folder
        assert f"the session began in {str(folder)!r}, and {reason}" in question.prompt
    unsaid, question = await place.asked(link / "a", "", folder=link)
    assert unsaid == "ask"
    assert f"the session began in {str(place.home)!r}, and that is the home" in question.prompt


async def test_every_allow_rule_is_affected(place):
    elsewhere = place.two.parent / "elsewhere"
    tools = {"put": {"writes": ["path"], "effects": ["write"]}}
    tools["get"] = {"reads": ["path"], "effects": ["read"]}
    texts = ["./**", "{notes.md,./x}", "sub/*", f"{{{elsewhere}/**,../y}}", "."]
    paths = {"put": ("writes", "touches"), "get": ("reads", "touches")}
    for name, keys in paths.items():
        for key in keys:
            rules = [{"name": "r", "verdict": "allow", key: texts}]
            settings = {"rule": rules, "tools": tools}
            for path in ("a", "x", "sub/x", "../y"):
                verdict = await place.verdict(
                    place.home / path, place.home, tool=name, folder=place.home, **settings
                )
                assert verdict == "ask", (name, key, path)
            for path in (place.home / "notes.md", elsewhere / "z"):
                verdict = await place.verdict(path, place.home, tool=name, **settings)
                assert verdict == "allow", (name, key, path)


@pytest.mark.parametrize("which", ["one", "code"])
async def test_a_link_is_not_a_project(place, which):
    folder = {"one": place.one, "code": place.one.parent}[which]
    target = place.home / ("." if which == "one" else "other")
    (place.home / "other/one").mkdir(parents=True)
    before = await place.verdict(place.one / "a", place.one)
    folder.rename(place.home / "moved")
    gone = await place.verdict(place.one / "a", place.one)

    folder.symlink_to(target)
    linked, question = await place.asked(place.one / "a", place.one)
    through = await place.verdict(target / "a", place.one)
    folder.unlink()
    (place.home / "moved").rename(folder)

    assert (before, gone, linked, through) == ("allow", "allow", "ask", "ask")
    assert "a link has replaced it" in question.prompt
    assert await place.verdict(place.one / "a", place.one) == "allow"


async def test_protected_files_stay_protected(place, monkeypatch):
    data = place.home / "data"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(data))
    monkeypatch.setenv("XDG_STATE_HOME", str(data))
    names = ("policy.toml", "toolbus.toml", "trusted.json", "hooks.db", "new")
    settings = [data / "toolbus" / name for name in names]
    (data / "toolbus").mkdir(parents=True)
    for file in settings[:-1]:
        file.write_text("")
    policy = Policy.read(place.file)
    place.policy = policy

    for project in (data, data / "toolbus"):
        assert [await place.verdict(file, project) for file in settings] == ["deny"] * 5
    assert await place.verdict(data / "git/config", data) == "allow"
    for name in (".claude/settings.json", ".mcp.json", "toolbus.toml"):
        assert await place.verdict(place.one / name, place.one) == "deny"


async def test_approvals_belong_to_one_project(place):
    outside = place.home / "x"

    asked = [(await place.asked(outside, project))[1] for project in (place.one, place.two)]
    again = (await place.asked(outside, place.one))[1]
    at_home = (await place.asked(outside, place.home))[1]

    assert asked[0].rules == again.rules
    digests = [question.rules for question in (*asked, at_home)]
    assert len(set(digests)) == 3


# --- it holds wherever calls are judged ----------------------------------------------------------

TOLD = list(HOSTS)
OTHERS = [pytest.param(name, marks=pytest.mark.full) for name in TOLD[1:]]


@pytest.mark.parametrize("host", [TOLD[0], *OTHERS])
def test_each_session_of_a_host_keeps_its_project(place, host):
    place.own_policy()

    begun = place.hook(host, place.one, "true")
    inside = place.hook(host, place.one, "touch a")
    from_outside = place.hook(host, place.two, f"touch {place.one}/a")
    outside = [place.hook(host, place.two, f"touch {name}") for name in ("a", place.two / "a")]
    denied = place.hook(host, place.two, f"touch {place.one}/secret/x")

    assert begun == inside == from_outside
    # Where a host cannot ask, what would be asked about is denied.
    assert all(told != begun for told in (*outside, denied))


def test_a_link_may_lead_to_the_project(place, tmp_path):
    place.own_policy()
    allowed = place.hook("claude-code", place.one, "true")
    for number, (name, target) in enumerate({"project": place.one, "home": place.home}.items()):
        link = tmp_path / name / "link"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
        place.store = tmp_path / f"hooks{number}.db"

        told = [place.hook("claude-code", link, f"touch {file}/a") for file in (".", link, target)]

        assert [each == allowed for each in told] == [name == "project"] * 3


@pytest.mark.full
def test_a_proxy_works_where_it_was_started(place, tmp_path):
    (place.file.parent / "toolbus.toml").write_text(
        '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
    )
    server = tmp_path / "server.py"
    server.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked.get('method') == 'tools/call':\n"
        "        open(asked['params']['arguments']['path'], 'w').close()\n"
        "    result = {'content': [{'type': 'text', 'text': 'done'}]}\n"
        "    answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': result}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    paths = [str(place.one / "a"), str(place.two / "a")]
    frames = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "put", "arguments": {"path": path}},
        }
        for number, path in enumerate(paths)
    ]

    config = place.file.parent / "toolbus.toml"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "toolbus",
            "proxy",
            "--config",
            config,
            "--",
            sys.executable,
            server,
        ],
        input="".join(json.dumps(frame) + "\n" for frame in frames),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=place.one,
    )

    assert [Path(path).exists() for path in paths] == [True, False], done.stderr
    assert "approval is needed" in done.stdout


def test_a_replay_uses_the_recorded_folder(place, monkeypatch, capsys):
    def findings(source, *options):
        # What is asked is a finding, and taken as approved.
        words = ["replay", source, "--with", place.file.parent / "toolbus.toml", "--json", *options]
        assert main([*map(str, words)]) == 0
        found = json.loads(capsys.readouterr().out)["findings"]
        return [(finding["outcome"], finding["reason"]) for finding in found]

    def line(kind, **message):
        facts = {"type": kind, "sessionId": "s", "uuid": kind, "cwd": str(place.one)}
        return json.dumps({**facts, "message": {"role": kind, **message}})

    place.own_policy()
    (place.file.parent / "toolbus.toml").write_bytes((place.own / "toolbus.toml").read_bytes())
    place.hook("claude-code", place.one, "true")
    place.hook("claude-code", place.two, f"touch {place.one}/a")
    export, claude, bare = (place.home / f"{name}.jsonl" for name in ("export", "claude", "bare"))
    use = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "a"}}
    called = {"id": "m", "content": [use]}
    claude.write_text(f"{line('user', content='x')}\n{line('assistant', **called)}\n")
    call = {"name": "Write", "arguments": json.dumps({"file_path": str(place.one / "a")})}
    messages = [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}]
    messages[0]["tool_calls"][0]["function"] = call
    bare.write_text(json.dumps({"messages": messages}))
    monkeypatch.chdir(place.one.parent)
    assert main(["export", str(place.store), "-o", str(export)]) == 0
    capsys.readouterr()

    told = [findings(source) for source in (place.store, export, claude)]

    assert told == [[], [], []]
    ((outcome, reason),) = findings(bare)
    assert outcome == "asked"
    assert "the session's starting folder is unknown" in reason
    assert findings(bare, "--folder", place.one) == []


# --- a person's own policy is made for it --------------------------------------------------------


def test_a_personal_policy_is_written(place, capsys):
    own = place.own / "policy.toml"

    codes = [main(["policy", "init", "--personal"]) for _ in range(2)]
    told = capsys.readouterr()
    codes.append(main(["policy", "init", str(place.own / "other.toml")]))

    assert codes == [0, 2, 0]
    assert f"{own} is written; read it, then name it in {place.own}/toolbus.toml:" in told.out
    assert 'settings = { file = "policy.toml" }' in told.out
    assert told.err == f"error: {str(own)!r} exists; name another file\n"
    for file in (own, place.own / "other.toml"):
        assert read_policy(file).project is not None
        capsys.readouterr()
        assert main(["policy", "check", str(file)]) == 0
    assert main(["policy", "init", "here.toml"]) == 0
    assert read_policy(Path("here.toml")).project is None
    assert main(["policy", "init", "--personal", "mine.toml"]) == 0
    told = capsys.readouterr().out
    assert f"then name it in {place.own}/toolbus.toml:" in told
    assert f'file = "{Path.cwd() / "mine.toml"}"' in told


def test_writing_is_allowed_in_every_project(place):
    main(["policy", "init", "--personal"])
    place.name_own()
    for number, project in enumerate((place.one, place.two)):
        place.store = place.store.with_name(f"hooks{number}.db")
        other = place.two if project == place.one else place.one

        begun = place.hook("claude-code", project, "true")
        inside = place.hook("claude-code", project, "touch a")
        outside = place.hook("claude-code", project, f"touch {other}/a")
        settings = place.hook("claude-code", project, f"touch {place.own}/toolbus.toml")

        assert inside == begun
        assert b'"permissionDecision":"ask"' in outside
        assert b'"permissionDecision":"deny"' in settings


def test_a_policy_without_a_project_is_reported(place, capsys):
    bare = POLICY.replace('project = "session"\n', "")
    place.own_policy(bare)
    own = place.own / "policy.toml"

    warned, said = main(["policy", "check", str(own)]), capsys.readouterr().out
    asked = [place.hook("claude-code", place.one, "touch a")]
    place.file.write_text(bare)
    codes = [main(["policy", "check", str(place.file)])]
    for project in ("session", "file"):
        own.write_text(f'project = "{project}"\n{bare}')
        codes.append(main(["policy", "check", str(own)]))
    asked.append(place.hook("claude-code", place.one, "touch a", "again"))

    assert warned == 1
    told = f"{own}:9: warning: rule 'inside': './**' begins at {str(place.own)!r}; "
    way_out = '`project = "session"` is the folder in which a session began'
    assert said == f"{told}{way_out}\n"
    assert way_out.encode() in asked[0].replace(b'\\"', b'"')
    assert way_out.encode() not in asked[1].replace(b'\\"', b'"')
    assert codes == [0, 0, 0]


def test_explanations_name_the_folder_of_the_session(place, capsys):
    def explained(*options):
        call = ("--tool", "put", "--arguments", '{"path": "a"}')
        assert main(["policy", "explain", str(place.file), *call, *options]) == 0
        return capsys.readouterr().out.splitlines()

    table = place.file.with_name("calls.toml")
    table.write_text('[[call]]\ntool = "put"\narguments = { path = "a" }\nverdict = "allow"\n')

    here, there = explained(), explained("--folder", str(place.two))
    home, data = explained("--folder", str(place.home)), explained("--json")
    code = main(["policy", "test", str(place.file), str(table)])

    for lines, folder in ((here, place.one), (there, place.two)):
        assert lines[-2:] == [
            f"allow  put in {folder}",
            f"assuming a session that began in {folder}",
        ]
    assert f"ask  put in {place.home}" in home
    assert "that is the home folder: './' allows nothing there" in " ".join(home)
    assert json.loads("\n".join(data))["project"] == str(place.one)
    told = capsys.readouterr().out.splitlines()
    assert (code, told[-1]) == (0, f"assuming a session that began in {place.one}")


@pytest.mark.parametrize("value", ['"."', '"sesion"', "1", '["session"]'])
def test_an_unknown_project_value_is_refused(place, value):
    place.file.write_text(POLICY.replace('"session"', value))

    with pytest.raises(LoadError) as caught:
        Policy.read(place.file)

    refused = str(caught.value)
    assert f"{place.file}:1: unknown project " in refused
    hint = "did you mean 'session'?" if value not in {'"."', "1"} else "known: file, session"
    assert hint in refused

"""The scenarios of `specs/configuration.md`."""

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from textwrap import dedent

import blinker
import msgspec
import pytest

from toolbus import Agent, AssistantMessage, ToolCall, events, tool
from toolbus.config import load, read
from toolbus.config.documents import find
from toolbus.errors import ConfigurationError, LoadError
from toolbus.models.scripted import ScriptedModel

ACME = Path(__file__).parents[1] / "distributions/acme-guards"
IMPORTS = "from toolbus import AgentComponent, Deny, ToolAdapter, events, guard, on\n"
PLAIN = "class Plain(AgentComponent): ...\n"
SIZED = """
class Sized(AgentComponent):
    def __init__(self, size: int, *, marker: str = "…"):
        self.size, self.marker = size, marker
"""
MARKING = """
from msgspec.structs import replace
class Mark(ToolAdapter):
    def __init__(self, text): self.text = text
    def adapt_signature(self, spec):
        return replace(spec, description=spec.description + self.text)
    def adapt_parameters(self, call):
        return call.merge_arguments({"path": call.arguments["path"] + self.text})
    def adapt_response(self, response, call):
        return response.map_text(lambda text: text + self.text)
class Marking(AgentComponent):
    def __init__(self, text: str):
        self.register_tool_adapter(Mark(text))
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Return the current folder, empty; what is imported from it is forgotten."""
    folder = tmp_path / "here"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return folder


@pytest.fixture
def write(here):
    """Return a function that writes a file there, or a folder above."""

    def write_file(name, text):
        file = here / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((IMPORTS if name.endswith(".py") else "") + dedent(text))
        return file

    return write_file


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Return a function that puts an installed package in the way of imports."""

    def install(name, module, text, offers):
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[toolbus.components]\n{offers}\n")
        (site / f"{module}.py").write_text(IMPORTS + text)
        monkeypatch.syspath_prepend(site)

    return install


@pytest.fixture
def mistake(write):
    """Return a function that loads a configuration in vain and returns line and reason."""

    def fail(text):
        write("toolbus.toml", text)
        with pytest.raises(ConfigurationError) as caught:
            load("toolbus.toml")
        assert caught.value.file == "toolbus.toml"
        assert str(caught.value) == f"toolbus.toml:{caught.value.line}: {caught.value.reason}"
        return caught.value.line, caught.value.reason

    return fail


def names(components):
    return [type(one).__name__ for one in components]


def asking(*calls):
    """Return an answer of a model that makes *calls*: names of tools with a path."""
    made = [
        ToolCall(id=f"c-{at}", name=one, arguments={"path": "p"}) for at, one in enumerate(calls)
    ]
    return AssistantMessage(id="m", tool_calls=tuple(made))


@tool
def read_file(path: str) -> str:
    """Read."""
    return path


@tool
def list_files(path: str) -> str:
    """List."""
    return path


async def test_a_class_in_a_file_is_named(write, here, monkeypatch):
    write("there/policy.py", PLAIN)
    file = write("there/toolbus.toml", '[[component]]\nuse = "./policy.py:Plain"')

    (component,), (other,) = load(file), load(str(file))

    assert names([component]) == ["Plain"]
    assert type(other) is type(component)
    assert other is not component


async def test_a_single_class_needs_no_name(write):
    write("bases.py", PLAIN)
    write("policy.py", "from bases import Plain\nclass Strict(Plain): ...\nStrictest = Strict\n")
    write("toolbus.toml", '[[component]]\nuse = "policy.py"')

    assert names(load("toolbus.toml")) == ["Strict"]


async def test_a_class_in_a_module_is_named(write, here, monkeypatch):
    write("lib/acme_rules/__init__.py", "")
    write("lib/acme_rules/strict.py", PLAIN)
    write("toolbus.toml", '[[component]]\nuse = "acme_rules.strict:Plain"')
    monkeypatch.syspath_prepend(here / "lib")

    assert names(load("toolbus.toml")) == ["Plain"]


async def test_a_function_may_make_a_component(write):
    write("policy.py", f"{SIZED}\ndef make(times: int):\n    return Sized(2 * times)\n")
    write("toolbus.toml", '[[component]]\nuse = "policy.py:make"\nsettings.times = 21')

    (component,) = load("toolbus.toml")

    assert component.size == 42


async def test_an_adapter_needs_no_component(write):
    write("marks.py", MARKING)
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "marks.py:Mark"
        tools = ["read_*"]
        settings = { text = "!" }
    """,
    )

    components = load("toolbus.toml")
    async with Agent(
        ScriptedModel([]), tools=[read_file, list_files], components=components
    ) as agent:
        outcomes = [await agent.call_tool(one, path="p") for one in ("read_file", "list_files")]

    assert [component.name for component in components] == ["Mark"]
    assert [agent.messages[at].text for at in (1, 3)] == ["p!!", "p"]
    assert [one.status for one in outcomes] == ["ok", "ok"]


async def test_an_installed_package_provides_components(write, tmp_path, environment, command):
    text = '[[component]]\nuse = "no-force-push"\nsettings = { branches = ["main", "release"] }'
    write("toolbus.toml", text)
    fresh, source = tmp_path / "fresh", tmp_path / "source"
    venv.create(fresh, symlinks=True)
    shutil.copytree(ACME, source, ignore=shutil.ignore_patterns("__pycache__"))
    # What toolbus itself needs is borrowed, so that nothing must be downloaded.
    borrowed = [Path(one.__file__).parents[1] for one in (blinker, msgspec)]
    path = ":".join([environment["PYTHONPATH"], *map(str, borrowed)])
    program = str(fresh / "bin/python")

    before = command("handlers", "--config", "toolbus.toml", program=program, PYTHONPATH=path)
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", program, "install", "-q"]
    subprocess.run([*pip, "--no-index", "--no-build-isolation", source], check=True, cwd=tmp_path)
    after = command("handlers", "--config", "toolbus.toml", program=program, PYTHONPATH=path)

    assert before.stderr.startswith("error: toolbus.toml:2: unknown component 'no-force-push'; ")
    assert (before.returncode, after.returncode, after.stderr) == (2, 0, "")
    assert re.search(r"\n +1  no-force-push +toolbus\.toml:1\n", after.stdout)
    assert re.search(r" 400  guard +closed +NoForcePush\.judge\s", after.stdout)


async def test_only_named_modules_are_imported(write, offer):
    offer("acme", "acme_good", PLAIN, "good = acme_good:Plain\nbad = acme_no_such:Plain")
    write("toolbus.toml", '[[component]]\nuse = "good"')

    assert names(load("toolbus.toml")) == ["Plain"]


async def test_settings_have_the_constructor_s_types(write, here):
    write(
        "policy.py",
        """
        from collections.abc import Iterable, Mapping
        from pathlib import Path
        import re
        from typing import Literal
        class All(AgentComponent):
            def __init__(
                self, a: float, b: tuple[str, ...], c: Iterable[str], d: Literal["x", "y"],
                e: Mapping[str, list[int]], f: re.Pattern[str], g: Path, h: "int | None" = None,
                i=None, **more: bool,
            ):
                self.all = (a, b, c, d, e, f, g, h, i, more)
        """,
    )
    file = write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:All"
        [component.settings]
        a = 1
        b = ["p", "q"]
        c = ["r"]
        d = "y"
        e = { one = [1, 2] }
        f = "a+"
        g = "data/words.txt"
        h = 3
        i = 1979-05-27
        j = true
        """,
    )

    (component,) = load(file)

    *most, day, more = component.all
    expression = re.compile("a+")
    words = here / "data/words.txt"
    assert most == [1.0, ("p", "q"), ("r",), "y", {"one": [1, 2]}, expression, words, 3]
    assert type(most[0]) is float
    assert (day.year, more) == (1979, {"j": True})


async def test_a_disabled_component_is_not_imported(write):
    write("policy.py", PLAIN)
    write("broken.py", "1 / 0")
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "broken.py:Any"
        enabled = false
        [[component]]
        use = "policy.py:Plain"
        enabled = true
        """,
    )

    assert names(load("toolbus.toml")) == ["Plain"]


async def test_one_class_may_serve_twice(write):
    write("policy.py", SIZED)
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:Sized"
        settings = { size = 1 }
        [[component]]
        use = "policy.py:Sized"
        name = "large"
        settings = { size = 9 }
        """,
    )

    assert [one.size for one in load("toolbus.toml")] == [1, 9]


async def test_a_configuration_may_have_no_components(write):
    write("toolbus.toml", "# nothing yet\n")

    assert load("toolbus.toml") == ()


async def test_questions_to_a_person_are_configured(write, mistake):
    write(
        "ours.toml", "[approvals]\nwait = 30\nexpires_after = 3600\nhost_asks = false\nmax_open = 5"
    )
    write("plain.toml", "")

    settings = read("ours.toml").approvals

    assert (settings.wait, settings.expires_after, settings.host_asks) == (30.0, 3600.0, False)
    assert settings.max_open == 5
    nothing = read("plain.toml").approvals
    assert (nothing.wait, nothing.expires_after, nothing.host_asks) == (None, None, None)
    for key, value, told in (
        ("wait", "-1", "expected 0 to 31,622,400 seconds, got -1"),
        ("wait", "nan", "expected 0 to 31,622,400 seconds, got nan"),
        ("wait", '"long"', "expected `float`, got `str`"),
        ("expires_after", "0", "expected 1 to 31,622,400 seconds, got 0"),
        ("max_open", "0", "expected a number of questions from 1 up, got 0"),
    ):
        line, reason = mistake(f"[approvals]\n\n{key} = {value}")
        assert (line, reason) == (3, f"key {key!r}: {told}")
    assert mistake("[approvals]\nwate = 3") == (2, "unknown key 'wate'; did you mean 'wait'?")
    assert mistake("approvals = 3") == (1, "'approvals' is not a table; write [approvals]")


async def test_output_of_code_goes_to_standard_error(write, capsys):
    write(
        "policy.py", "print('one')\nclass Loud(AgentComponent):\n def __init__(self): print('two')"
    )
    write("toolbus.toml", '[[component]]\nuse = "policy.py:Loud"')

    load("toolbus.toml")

    assert capsys.readouterr() == ("", "one\ntwo\n")


async def test_a_folder_above_is_searched(write, here, monkeypatch, person):
    write("toolbus.toml", "")
    near = write("project/toolbus.toml", "")
    (here / "project/.git").mkdir()
    person("trust", "project/toolbus.toml")
    write("project/source/package/x.txt", "")
    monkeypatch.chdir(here / "project/source/package")

    assert find() == near
    assert read().file == near


async def test_a_project_s_table_is_enough(write, person):
    write("policy.py", SIZED)
    text = '[[tool.toolbus.component]]\nuse = "policy.py:Sized"\nsettings.size = 3'
    write("pyproject.toml", f"[project]\nname = 'x'\n{text}")
    person("trust", "pyproject.toml")

    assert [one.size for one in load()] == [3]


async def test_a_file_of_toolbus_comes_first(write):
    write("toolbus.toml", "")
    write("pyproject.toml", '[[tool.toolbus.component]]\nuse = "nothing.py"')

    assert find() == Path("toolbus.toml")


async def test_projects_without_the_table_are_skipped(write, here, monkeypatch):
    above = write("toolbus.toml", "")
    (here / ".git").mkdir()
    write("a/pyproject.toml", '[project]\nname = "toolbus-friend"\n')
    write("a/b/pyproject.toml", "[broken")
    monkeypatch.chdir(here / "a/b")

    assert find() == above


async def test_no_configuration_is_an_error():
    with pytest.raises(
        LoadError, match=r"no toolbus\.toml, and no \[tool\.toolbus\] .*; write one"
    ):
        load()


async def test_adapters_follow_the_priorities(write):
    write("policy.py", MARKING)
    one = '[[component]]\nuse = "policy.py:Marking"\n'
    write(
        "toolbus.toml",
        f'{one}name = "a"\nsettings.text = "-last"\npriority = 50\n'
        f'{one}name = "b"\nsettings.text = "-then"\n'
        f'{one}name = "c"\nsettings.text = "-first"\npriority = 200\n',
    )

    async with Agent(
        ScriptedModel([]), tools=[list_files], components=load("toolbus.toml")
    ) as agent:
        outcome = await agent.call_tool("list_files", path="p")

    assert outcome.executed.arguments["path"] == "p-last-then-first"
    assert agent.messages[-1].text == "p-last-then-first-first-then-last"


async def test_handlers_take_the_priority(write):
    write(
        "policy.py",
        """
        class Rules(AgentComponent):
            ran = []
            @on(events.TOOL_CALL_BEFORE, priority=7)
            def late(self, ctx): self.ran.append("late")
            @on(events.TOOL_CALL_BEFORE, priority=500)
            def early(self, ctx): self.ran.append("early")
        """,
    )
    write("toolbus.toml", '[[component]]\nuse = "policy.py"\npriority = 300')
    (component,) = load("toolbus.toml")

    async with Agent(ScriptedModel([]), tools=[list_files], components=[component]) as agent:
        handlers = agent.bus.handlers(events.TOOL_CALL_BEFORE)
        await agent.call_tool("list_files", path="p")

    ranks = [(one.name, one.priority) for one in handlers if "adapter" not in one.name]
    assert ranks == [("Rules.early", 300), ("Rules.late", 300)]
    assert component.ran == ["early", "late"]


async def test_a_required_component_comes_first(write):
    write(
        "policy.py",
        """
        class Base(AgentComponent): ...
        class Above(AgentComponent): requires = (Base,)
        class Left(AgentComponent): ...
        class Right(AgentComponent): requires = (Left,)
        Left.requires = (Right,)
        """,
    )
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:Base"
        priority = 1
        [[component]]
        use = "policy.py:Above"
        priority = 900
        [[component]]
        use = "policy.py:Right"
        [[component]]
        use = "policy.py:Left"
        """,
    )

    assert names(load("toolbus.toml"))[:2] == ["Base", "Above"]
    assert set(names(load("toolbus.toml"))[2:]) == {"Left", "Right"}


async def test_adapters_leave_other_tools_alone(write):
    write("policy.py", MARKING)
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:Marking"
        tools = ["read_*", "fetch"]
        settings = { text = "!" }
    """,
    )
    model, specs = ScriptedModel([asking("read_file", "list_files"), "done"]), []

    async with Agent(
        model, tools=[read_file, list_files], components=load("toolbus.toml")
    ) as agent:
        agent.on(events.MODEL_CALL_BEFORE, lambda ctx: specs.extend(ctx.value.tools))
        await agent.run("go")

    assert [one.description for one in specs[:2]] == ["Read.!", "List."]
    assert [one.text for one in agent.messages if one.role == "tool"] == ["p!!", "p"]


async def test_handlers_see_only_these_tools(write):
    write(
        "policy.py",
        """
        class Watch(AgentComponent):
            def __init__(self): self.seen = []
            @on(events.TOOL_CALL_BEFORE)
            @on(events.TOOL_CALL_ERROR)
            @on(events.TOOL_CALL_AFTER)
            @on(events.MESSAGE_APPEND_BEFORE)
            @on(events.MESSAGE_PERSIST_BEFORE)
            @on(events.TOOL_CALL_PERSIST_BEFORE)
            @on(events.TOOL_CALL_PERSIST_AFTER)
            @on(events.MESSAGE_APPEND_AFTER)
            def see(self, ctx):
                if getattr(ctx.value, "role", "tool") == "tool":
                    self.seen.append((ctx.event.name, "fails" in repr(ctx.value)))
    """,
    )
    write("toolbus.toml", '[[component]]\nuse = "policy.py"\ntools = "fails"')

    @tool
    def fails(path: str) -> str:
        raise OSError(path)

    @tool
    def breaks(path: str) -> str:
        raise OSError(path)

    (watch,) = load("toolbus.toml")
    model = ScriptedModel([asking("fails", "breaks"), "done"])
    async with Agent(model, tools=[fails, breaks], components=[watch]) as agent:
        await agent.run("go")

    assert {one for _, one in watch.seen} == {True}
    assert sorted(one for one, _ in watch.seen) == [
        "message:append:after",
        "message:append:before",
        "message:persist:before",
        "tool:call:after",
        "tool:call:before",
        "tool:call:error",
        "tool:call:persist:after",
        "tool:call:persist:before",
    ]


async def test_a_rewritten_call_is_judged_too(write):
    write(
        "policy.py",
        """
        class Never(AgentComponent):
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx): return Deny("never")
    """,
    )
    write("toolbus.toml", '[[component]]\nuse = "policy.py"\ntools = ["read_file"]')

    async with Agent(
        ScriptedModel([]), tools=[read_file, list_files], components=load("toolbus.toml")
    ) as agent:
        plain = await agent.call_tool("list_files", path="p")
        agent.on(
            events.TOOL_CALL_BEFORE,
            lambda ctx: ToolCall(id=ctx.value.id, name="read_file", arguments={"path": "q"}),
        )
        rewritten = await agent.call_tool("list_files", path="p")

    assert (plain.status, rewritten.status) == ("ok", "denied")


async def test_events_without_a_tool_are_seen(write):
    write(
        "policy.py",
        """
        class Watch(AgentComponent):
            def __init__(self): self.seen = []
            @on(events.RUN_BEFORE)
            def begin(self, ctx): self.seen.append("run")
            @on(events.MESSAGE_APPEND_AFTER)
            def see(self, ctx): self.seen.append(ctx.value.role)
    """,
    )
    write("toolbus.toml", '[[component]]\nuse = "policy.py"\ntools = "read_file"')
    (watch,) = load("toolbus.toml")

    async with Agent(ScriptedModel(["done"]), components=[watch]) as agent:
        await agent.run("go")

    assert watch.seen == ["run", "user", "assistant"]


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        (b"# x\nuse = = 1\n", "2:7", "invalid value"),
        (b"x = 1\n\n[[component", "3", ""),
        (b'x = """\n\n', "3", ""),
        (b"a = 1\na = 2\n", "2", "cannot overwrite a value"),
        (b"# \xff\n", "1", "the file is not UTF-8"),
        (b"\xef\xbb\xbfx = 1", "1:1", "invalid statement"),
    ],
)
async def test_broken_toml_names_line_and_column(here, data, place, reason):
    (here / "toolbus.toml").write_bytes(data)

    with pytest.raises(ConfigurationError) as caught:
        load("toolbus.toml")

    assert str(caught.value).startswith(f"toolbus.toml:{place}")
    assert caught.value.reason.startswith(reason)
    assert "line" not in caught.value.reason


async def test_a_file_that_is_missing_is_named(write, here):
    write("pyproject.toml", "[tool.other]\n")
    (here / "folder.toml").mkdir()

    for name, reason in (
        ("no.toml", "there is no such file; write one, or name another"),
        ("folder.toml", "it cannot be read: Is a directory"),
        ("pyproject.toml", "there is no [tool.toolbus] in it; add one"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            load(name)
        assert str(caught.value) == f"{name}: {reason}"


async def test_an_unknown_key_names_the_nearest(mistake):
    inside = (
        "; known: enabled, name, priority, settings, tools, use"
        "; the component's own go into `settings`"
    )

    assert mistake("# x\n[[components]]\nuse = 1") == (
        2,
        "unknown key 'components'; did you mean 'component'?",
    )
    assert mistake("colour = 1") == (
        1,
        "unknown key 'colour'; known: approvals, component, otel, price, server, store",
    )
    assert mistake('[[component]]\nuse = "x"\nprioritty = 3') == (
        3,
        "unknown key 'prioritty'; did you mean 'priority'?",
    )
    assert mistake('component = [\n{use = "x"},\n{"max chars" = 3}]') == (
        3,
        f"unknown key 'max chars'{inside}",
    )
    text, is_policy = 'default = "ask"', "unknown key 'default': this is a policy; name it in"
    assert mistake(text)[1].startswith(f"{is_policy} a toolbus.toml: [[component]]")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("component = 3", 1, "'component' is not an array of tables; write [[component]]"),
        ("[component]\nuse=1", 1, "'component' is not an array of tables; write [[component]]"),
        ("[[component]]\n# x\nuse = 5", 3, "key 'use': expected `str`, got `int`"),
        ('[[component]]\nuse = ""', 2, "key 'use': expected a value that is not empty, got ''"),
        ('[[component]]\nuse="x"\ntools=["a",\n5]', 4, "key 'tools': expected `str`, got `int`"),
        (
            '[[component]]\nuse="x"\ntools=[]',
            3,
            "key 'tools': expected a value that is not empty, got []",
        ),
        ('[[component]]\nuse="x"\npriority="a"', 3, "key 'priority': expected `int`, got `str`"),
        ('[[component]]\nuse="x"\nenabled=1', 3, "key 'enabled': expected `bool`, got `int`"),
        ('[[component]]\nuse="x"\nsettings=1', 3, "key 'settings': expected `object`, got `int`"),
        ("\n[[component]]\nname='x'", 2, "the component has no `use`; "),
    ],
)
async def test_a_wrong_shape_is_refused(mistake, text, line, reason):
    found = mistake(text)

    assert found[0] == line
    assert found[1].startswith(reason)


async def test_an_unknown_setting_names_the_nearest(write, mistake):
    write("policy.py", SIZED)
    start = '# x\n[[component]]\nuse = "policy.py"\n'

    inline = mistake(f"{start}settings = {{ size = 1, makrer = 2 }}")
    table = mistake(f"{start}[component.settings]\nsize = 1\n\ncolour = 2")

    what = "component 'policy.py': unknown setting"
    assert inline == (4, f"{what} 'makrer'; did you mean 'marker'?")
    assert table == (7, f"{what} 'colour'; known: marker, size")


async def test_a_missing_setting_is_named(write, mistake):
    write(
        "policy.py", f"{SIZED}class Two(AgentComponent):\n def __init__(self, a, b, *c, d=1): ...\n"
    )

    one = mistake('\n[[component]]\nuse = "policy.py:Sized"\nsettings.marker = "x"')
    two = mistake('[[component]]\nuse = "policy.py:Two"')

    assert one == (2, "component 'policy.py:Sized': it needs the setting 'size'")
    assert two == (1, "component 'policy.py:Two': it needs the settings 'a', 'b'")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("a = 'x'", "'a': expected `int`, got `str`"),
        ("a = true", "'a': expected `int`, got `bool`"),
        ("b = [\n1,\n'x']", "'b': expected `int`, got `str`"),
        ("c = { x = 3 }", "'c': expected `str`, got `int`"),
        ("d = 'red'", "'d': invalid enum value 'red'"),
        ("e = 3", "'e': expected `str` for a `Path`, got `int`"),
        (
            "f = '('",
            "'f': invalid regular expression: missing ), unterminated subpattern at position 0",
        ),
        ("g = 3", "'g': a file cannot contain a `Callable`"),
        ("h = ['x', 5]", "'h': expected `str`, got `int`"),
        ("h = 'word'", "'h': expected `array`, got `str`"),
        ("i = 3", "'i': its type hint cannot be read: name 'Nowhere' is not defined; "),
    ],
)
async def test_a_wrong_type_names_its_line(write, mistake, setting, reason):
    write(
        "policy.py",
        """
        import re
        from collections.abc import Callable, Iterable
        from pathlib import Path
        from typing import Literal
        class All(AgentComponent):
            def __init__(
                self, a: int = 1, b: list[int] = [], c: dict[str, str] = {}, d: Literal["x"] = "x",
                e: Path | None = None, f: re.Pattern[str] = None, g: Callable[[], int] = None,
                h: Iterable[str] = (), i: 'Nowhere' = None,
            ): ...
    """,
    )

    line, found = mistake(f"[[component]]\nuse = 'policy.py'\n[component.settings]\n{setting}")

    assert line == 4 + setting.count("\n")
    assert found.startswith(f"component 'policy.py': setting {reason}")


async def test_an_unknown_component_names_the_nearest(write, mistake, offer):
    offer("acme", "acme_rules", PLAIN, "redact-secrets = acme_rules:Plain")
    write("policy.py", PLAIN)

    def missing(use):
        line, reason = mistake(f"[[component]]\n\nuse = '{use}'")
        assert line == 3
        return reason

    assert missing("redact-secret").endswith("; did you mean 'redact-secrets'?")
    # Our own package offers some as well.
    said, _, known = missing("other").partition("; known: ")
    assert said == "unknown component 'other'"
    assert "redact-secrets" in known.split(", ")
    assert missing("acme_rules:Plane") == "acme_rules has no 'Plane'; did you mean 'Plain'?"
    assert missing("./policy.py:Plane") == "./policy.py has no 'Plane'; did you mean 'Plain'?"
    assert missing("acme.rules:Plain").startswith("there is no module 'acme'; install its package")
    assert missing("acme_rules.x:Plain").startswith("there is no module 'acme_rules.x'; install")
    assert missing("no.py:Plain").startswith("there is no file 'no.py'; ")


async def test_duplicate_names_are_refused(mistake):
    twice = '[[component]]\nuse = "x"\n[[component]]\nuse = "x"\n'
    named = '[[component]]\nuse = "x"\n[[component]]\nuse = "y"\nname = "x"\n'

    told = "two components are called 'x', the other in line 1; give this one a `name` of its own"
    assert mistake(twice) == (4, told)
    assert mistake(named) == (5, told)


async def test_a_name_of_two_packages_is_refused(mistake, offer):
    offer("acme", "acme_rules", PLAIN, "redact = acme_rules:Plain")
    offer("bold", "bold_rules", PLAIN, "redact = bold_rules:Plain")

    line, reason = mistake('[[component]]\nuse = "redact"')

    assert line == 2
    assert reason == (
        "component 'redact' is offered by acme 1.0 and bold 1.0; "
        "give one of acme_rules:Plain, bold_rules:Plain"
    )


async def test_a_failing_import_is_explained(write, mistake, offer, here):
    offer("acme", "acme_rules", "import not_there", "redact = acme_rules:Plain")
    write("policy.py", "x = 1\n1 / 0\n")
    write("syntax.py", "def (:\n")
    offer("bold", "bold_rules", "1 / 0", "strict = bold_rules:Plain")

    def failing(use):
        line, reason = mistake(f"[[component]]\nuse = '{use}'")
        assert line == 2
        return reason

    assert failing("policy.py:X") == "policy.py:3: ZeroDivisionError: division by zero"
    assert failing("syntax.py:X") == f"{here}/syntax.py:2: SyntaxError: invalid syntax"
    why = "cannot be imported: ModuleNotFoundError: No module named 'not_there'"
    assert failing("acme_rules:X") == f"module 'acme_rules' {why}"
    assert failing("redact") == f"component 'redact' of acme 1.0 {why}"
    why = "cannot be imported: ZeroDivisionError: division by zero"
    assert failing("bold_rules:X") == f"module 'bold_rules' {why}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "it cannot be made: OSError: no room"),
        ("Exits", "it cannot be made: SystemExit: 3"),
        ("later", "its factory is async; give a sync function"),
        ("text", "expected a component from its factory, got 'str'"),
        ("Unnamed", "its parameter 'size' is positional-only; settings are named"),
    ],
)
async def test_a_failed_component_has_a_reason(write, mistake, name, reason):
    write(
        "policy.py",
        """
        class Raises(AgentComponent):
            def __init__(self): raise OSError("no\\nroom")
        class Exits(AgentComponent):
            def __init__(self): raise SystemExit(3)
        class Unnamed(AgentComponent):
            def __init__(self, size, /): ...
        async def later(): ...
        def text(): return "x"
    """,
    )

    found = mistake(f"[[component]]\nuse = 'policy.py:{name}'\nname = 'mine'")

    assert found == (1, f"component 'mine': {reason}")


async def test_other_objects_than_components_are_refused(write, mistake):
    write("policy.py", f"{PLAIN}{SIZED}made = Plain()\nnumber = 3\nclass Other: ...\n")
    write("empty.py", "")

    def refused(use):
        line, reason = mistake(f"[[component]]\nuse = '{use}'")
        assert line == 2
        return reason

    none = "is not a class of components, but an object of"
    assert refused("policy.py:number") == f"'policy.py:number' {none} 'int'"
    assert refused("policy.py:made") == f"'policy.py:made' {none} 'Plain'"
    assert refused("policy.py:Other") == "'policy.py:Other' is not a component, but class 'Other'"
    assert refused("policy.py").endswith("; give policy.py:NAME, one of Plain, Sized")
    assert refused("empty.py") == "empty.py has no class of components; write one"


async def test_a_missing_requirement_names_its_line(write, mistake):
    write("policy.py", f"{PLAIN}class Above(AgentComponent): requires = (Plain,)\n")

    found = mistake("\n[[component]]\nuse = 'policy.py:Above'")

    assert found == (
        2,
        "component 'policy.py:Above' requires Plain; add a [[component]] for that",
    )


async def test_an_unrestrictable_component_is_refused(write, mistake):
    write(
        "policy.py", "class Own(AgentComponent):\n def setup(self, agent): super().setup(agent)\n"
    )
    start = "[[component]]\nuse = 'policy.py'\n"

    for key in ("tools = 'x'", "priority = 3"):
        line, reason = mistake(start + key)
        assert line == 3
        assert reason.startswith("component 'Own': it overrides `setup`, which ")


async def test_without_a_target_it_is_listed(write, here, command, person, monkeypatch):
    write(
        "policy.py",
        f"""{SIZED}
class Strict(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): ...
""",
    )
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:Sized"
        settings.size = 3
        [[component]]
        use = "not-there"
        enabled = false
        [[component]]
        use = "policy.py:Strict"
        name = "strict"
        tools = ["git_*", "rm"]
        priority = 300
    """,
    )

    trust = person("trust")

    done = command("handlers")

    assert (trust.returncode, done.returncode, done.stderr) == (0, 0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"configuration  toolbus\.toml +1 handler on 1 event", lines[0])
    assert [re.split(r"  +", line.strip()) for line in lines[2:8]] == [
        ["components", "as installed"],
        ["1", "strict", "policy.py:Strict · only git_*, rm · priority 300"],
        ["toolbus.toml:8"],
        ["2", "policy.py:Sized", "toolbus.toml:2"],
        ["off", "not-there", "toolbus.toml:5"],
        [""],
    ]
    assert re.search(r"\n +300  guard +closed  Strict\.judge +policy\.py:\d+\n", done.stdout)


async def test_a_named_configuration_is_listed(write, command):
    write("policy.py", f"{PLAIN}{SIZED}")
    write("toolbus.toml", '[[component]]\nuse = "policy.py:Sized"\nsettings.size = 3')
    write("our.toml", '[[component]]\nuse = "policy.py:Plain"')

    option, target = command("handlers", "--config", "our.toml"), command("handlers", "our.toml")

    assert option.stdout == target.stdout
    assert option.stdout.startswith("configuration  our.toml ")
    assert "policy.py:Plain " in option.stdout


async def test_programs_get_the_components(write, here, command):
    write("policy.py", f"{PLAIN}class Keyed(AgentComponent):\n def __init__(self, key: str): ...\n")
    write(
        "toolbus.toml",
        """
        [[component]]
        use = "policy.py:Plain"
        priority = -5
        [[component]]
        use = "policy.py:Keyed"
        settings.key = "sesame"
    """,
    )

    done = command("handlers", "--config", "toolbus.toml", "--json")

    document = json.loads(done.stdout)
    assert "sesame" not in done.stdout
    assert (document["kind"], document["target"]) == ("configuration", "toolbus.toml")
    assert document["components"] == [
        {
            "name": use,
            "use": use,
            "enabled": True,
            "tools": ["*"],
            "priority": priority,
            "where": f"{here}/toolbus.toml:{line}",
        }
        for use, priority, line in (("policy.py:Keyed", None, 5), ("policy.py:Plain", -5, 2))
    ]


async def test_a_bad_configuration_ends_with_2(write, command):
    write(
        "policy.py", "class Bad(AgentComponent):\n def setup(self, agent): raise OSError(5, 'no')\n"
    )
    write("bad.toml", "x = 1")
    write("fails.toml", '[[component]]\nuse = "policy.py"')
    told = {
        "bad.toml": (
            "bad.toml:1: unknown key 'x'; known: approvals, component, otel, price, server, store"
        ),
        "no.toml": "no.toml: there is no such file; write one, or name another",
        "fails.toml": "fails.toml cannot be installed: OSError: [Errno 5] no",
    }

    for file, line in told.items():
        done = command("handlers", "--config", file)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {line}\n")
    both = command("handlers", "policy.py", "--config", "bad.toml")
    assert (both.returncode, both.stdout) == (2, "")
    assert "give a target or --config, not both" in both.stderr

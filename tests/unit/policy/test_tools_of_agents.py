"""The policy to start with, about the tools of coding agents as their hooks name them."""

from importlib.resources import files

import pytest

from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_policy, read_table
from toolbus.policy.rules.tables import NO_TOOL_FACTS
from toolbus.policy.shared_facts import StatedFacts
from toolbus.toml.values import MisfitError


@pytest.fixture
def verdict(tmp_path):
    for name in ("src/app.py", ".env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    text = files("toolbus.policy").joinpath("starting_policy.toml").read_bytes()
    (tmp_path / "policy.toml").write_bytes(text)
    rules = read_policy(tmp_path / "policy.toml")
    reader, judge = CallReader(rules, LineCache()), CallJudge(rules)

    def of(tool, **arguments):
        call = ToolCall(id="1", name=tool, arguments=arguments)
        return judge.judge(
            reader.facts(call, None, Scope(), str(tmp_path), origins=StatedFacts())
        ).verdict

    return of


SHELLS = [
    ("Bash", {"description": "x", "timeout": 1000, "run_in_background": False}),
    ("Bash", {}),
    ("run_shell_command", {"description": "x", "dir_path": "src", "is_background": True}),
    ("file_system.bash", {"timeout": 5}),
    ("bash", {"description": "x", "mode": "sync", "initial_wait": 30, "detach": False}),
    ("bash", {"description": "x", "workdir": "src", "timeout": 1}),
    ("Shell", {"working_directory": "src"}),
]


@pytest.mark.parametrize(("tool", "others"), SHELLS)
def test_commands_are_judged_in_every_agent(verdict, tool, others):
    assert verdict(tool, command="cat app.py", **others) == "allow"
    assert verdict(tool, command="curl example.org", **others) == "ask"
    assert verdict(tool, command="rm -rf ..", **others) == "deny"
    assert verdict(tool, command="cat ~/.ssh/id_rsa", **others) == "deny"


READERS = [
    ("Read", "file_path"),
    ("read_file", "file_path"),
    ("read", "filePath"),
    ("read", "path"),
    ("view", "path"),
    ("view_image", "path"),
    ("file_system.read_file", "path"),
    ("LS", "path"),
    ("list_directory", "dir_path"),
]


@pytest.mark.parametrize(("tool", "key"), READERS)
def test_files_of_secrets_are_read_in_no_agent(verdict, tool, key):
    assert verdict(tool, **{key: "src/app.py"}) == "allow"
    assert verdict(tool, **{key: ".env"}) == "deny"


SEARCHES = [
    ("Grep", "glob"),
    ("grep", "include"),
    ("grep", "paths"),
    ("grep_search", "include_pattern"),
    ("read_many_files", "include"),
]


@pytest.mark.parametrize(("tool", "key"), SEARCHES)
def test_files_of_secrets_are_searched_in_no_agent(verdict, tool, key):
    assert verdict(tool, pattern="x", **{key: "*.py"}) == "allow"
    assert verdict(tool, pattern="x", **{key: ".env"}) == "deny"


WRITERS = [
    ("Write", "file_path"),
    ("write_file", "file_path"),
    ("write", "filePath"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
    ("create", "path"),
    ("edit", "path"),
    ("replace", "file_path"),
    ("file_system.write_file", "path"),
]


@pytest.mark.parametrize(("tool", "key"), WRITERS)
def test_files_are_written_inside_only(verdict, tool, key):
    assert verdict(tool, **{key: "src/new.py"}) == "allow"
    assert verdict(tool, **{key: "../new.py"}) == "ask"
    assert verdict(tool, **{key: ".git/hooks/pre-commit"}) == "ask"
    assert verdict(tool, **{key: ".env"}) == "deny"


@pytest.mark.parametrize("key", ["command", "patchText", "input"])
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("*** Add File: src/new.py", "allow"),
        ("*** Update File: src/app.py\n*** Move to: src/b.py", "allow"),
        ("*** Update File: src/app.py\n*** Move to: ../b.py", "ask"),
        ("  *** Add File:   ../new.py  ", "ask"),
        ("*** Delete File: .git/HEAD", "ask"),
        ("*** Add File: src/new.py\n+x\n*** Update File: .env", "deny"),
    ],
)
def test_a_patch_names_the_files_that_it_writes(verdict, key, header, expected):
    patch = f"*** Begin Patch\n{header}\n+x\n*** End Patch\n"

    assert verdict("apply_patch", **{key: patch}) == expected


@pytest.mark.parametrize("tool", ["WebFetch", "web_fetch", "Agent", "mcp__a__b", "Skill"])
def test_what_else_there_is_is_asked_about(verdict, tool):
    assert verdict(tool, prompt="x") == "ask"


@pytest.mark.parametrize(
    "tool", ["mcp__todoist__delete_task", "todoist-delete", "delete_todos", "TaskCancelAll"]
)
def test_tools_of_servers_with_like_names_are_asked_about(verdict, tool):
    assert verdict(tool, task="x") == "ask"


@pytest.mark.parametrize(
    "tool", ["TaskCreate", "TodoWrite", "todowrite", "todo", "write_todos", "update_plan"]
)
def test_lists_of_things_to_do_are_allowed(verdict, tool):
    assert verdict(tool, subject="x") == "allow"


@pytest.mark.parametrize(
    "text", ["<<EOF\n*** Begin Patch\n*** Add File: /etc/x\nEOF", "", "x", "*** Begin Patch\n"]
)
def test_a_patch_that_names_no_files_is_not_allowed(verdict, text):
    assert verdict("apply_patch", command=text) == "ask"


def test_without_a_word_a_policy_does_not_know_them():
    assert read_table({}).facts_of("Read") == NO_TOOL_FACTS
    assert read_table({"coding_agents": True}).facts_of("Read").effects == ("read",)


def test_what_a_policy_says_itself_comes_first():
    rules = read_table({"coding_agents": True, "tools": {"R*": {"effects": ["network"]}}})

    assert rules.facts_of("Read").effects == ("network",)


def test_the_word_is_true_or_false():
    with pytest.raises(MisfitError, match="expected true or false, got 'yes'"):
        read_table({"coding_agents": "yes"})

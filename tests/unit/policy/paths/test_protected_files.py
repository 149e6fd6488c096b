import asyncio
import os
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

import toolbus
from toolbus.policy.commands import Command, PathUse, Word
from toolbus.policy.paths.protected_files import ProtectedFiles, is_of_store
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.store.sqlite import SqliteStore


class Piece(NamedTuple):
    action: tuple
    paths: tuple
    command: Command | None = None
    paths_stable: bool = True


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with trust and settings, and a project with a policy and pins."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name in (
        ".config/toolbus/trusted.json",
        ".claude/settings.json",
        "shop/rules.toml",
        "shop/toolbus.toml",
        "shop/toolbus.lock",
        "shop/src/app.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def judge(home, text, kind="write", *, action=("tee",), folder=".", **others):
    words = [PathUse(Word(each, pattern="*" in each), kind, folder) for each in text.split()]
    piece = Piece(action, (*others.pop("reads", ()), *words), **others)
    return judge_piece(home, piece)


def judge_piece(home, piece):
    resolver = PathResolver(CallPlace(str(home / "shop"), str(home)))
    files = ProtectedFiles([home / "shop" / "rules.toml"])
    return files.judge(piece, resolver).answer


def read(text, kind="read"):
    return PathUse(Word(text), kind)


@pytest.mark.parametrize(
    "text",
    [
        "rules.toml",
        "./src/../rules.toml",
        "toolbus.toml",
        "src/toolbus.toml",
        "toolbus.lock",
        "../.config/toolbus/trusted.json",
        "../.config/toolbus/new",
        "../.local/state/toolbus/logins/x",
        "../.claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
        "sub/.codex/config.toml",
        ".github/hooks/x.json",
        "r*.toml",
        f"{Path(toolbus.__file__).parent}/policy/policy.py",
        f"{sysconfig.get_path('purelib')}/x.pth",
        f"{sysconfig.get_path('stdlib')}/json/__init__.py",
    ],
)
def test_what_only_people_change_is_never_written(home, text):
    assert judge(home, text) == "yes"
    assert judge(home, text, "destroy", action=("rm",)) == "yes"


@pytest.mark.parametrize(
    "text",
    ["src/app.py", "pyproject.toml", ".claude/skills/x.md", "mcp.json", "src", "new/x", "/tmp/x"],
)
def test_all_else_is_for_the_rules(home, text):
    assert judge(home, text) == "no"


def test_a_link_of_a_process_is_asked_about(home):
    assert judge(home, "/proc/self/cwd/rules.toml") == "maybe"


def test_reading_them_is_for_the_rules(home):
    assert judge(home, "rules.toml", "read", action=("cat",)) == "no"


def test_a_link_to_them_is_no_way_round(home):
    shop = home / "shop"
    (shop / "soft").symlink_to("rules.toml")
    (shop / "folder").symlink_to("../.config")
    os.link(shop / "rules.toml", shop / "hard")
    os.link(shop / "src" / "app.py", shop / "other")

    assert judge(home, "soft") == "yes"
    assert judge(home, "folder/toolbus/trusted.json") == "yes"
    assert judge(home, "hard") == "yes"
    assert judge(home, "other") == "no"


def test_no_link_to_them_is_made(home):
    assert judge(home, "x", action=("ln",), reads=[read("rules.toml")]) == "yes"
    assert judge(home, "x", action=("ln",), reads=[read("src/app.py")]) == "no"


@pytest.mark.parametrize("folder", ["..", "../.config", "../.claude", ".", "/"])
def test_a_folder_of_them_is_not_moved_away(home, folder):
    assert judge(home, folder, "destroy", action=("rm",)) == "yes"
    moved = Piece(
        ("mv",),
        (read(folder, "read-tree"), PathUse(Word(folder), "write"), PathUse(Word("x"), "write")),
    )
    assert judge_piece(home, moved) == "yes"


def test_a_folder_without_them_is(home):
    assert judge(home, "src", "destroy", action=("rm",)) == "no"


def test_a_copy_gets_its_name_from_its_source(home):
    evil = home / "evil"
    (evil / "deep" / "toolbus").mkdir(parents=True)
    for name in ("rules.toml", "deep/toolbus/trusted.json", "plain"):
        (evil / name).touch()

    assert judge(home, ".", action=("cp",), reads=[read("../evil/rules.toml")]) == "yes"
    assert judge(home, ".", action=("cp",), reads=[read("../evil/plain")]) == "no"
    assert judge(home, ".", action=("cp",), reads=[read("../evil/.", "read-tree")]) == "yes"
    assert (
        judge(home, "../.config", action=("cp",), reads=[read("../evil/deep/.", "read-tree")])
        == "yes"
    )
    assert judge(home, "src", action=("cp",), reads=[read("../evil", "read-tree")]) == "no"


def test_what_an_archive_writes_beside_them_is_asked_about(home):
    assert judge(home, ".", action=("tar",)) == "maybe"
    assert judge(home, "src", action=("tar",)) == "no"
    assert judge(home, ".", action=("mkdir",)) == "no"


def test_what_is_not_known_is_asked_about(home):
    assert judge(home, "rules.toml", folder=None) == "maybe"
    assert judge(home, "../toolbus/trusted.json", folder=None) == "no"
    assert judge(home, "toolbus", folder=None) == "maybe"
    assert judge(home, ".mcp.json", folder=None) == "maybe"
    assert judge(home, "x", folder=None) == "no"
    unknown = Piece(("tee",), (PathUse(Word("$x", known=False), "write"),))
    assert judge_piece(home, unknown) == "maybe"


def test_a_link_made_in_the_same_line_is_asked_about(home):
    paths = (PathUse(Word("x"), "write"),)

    assert judge_piece(home, Piece(("tee",), paths)) == "no"
    assert judge_piece(home, Piece(("tee",), paths, paths_stable=False)) == "maybe"


def test_an_argument_that_may_be_such_a_file_is_asked_about(home):
    resolver = PathResolver(CallPlace(str(home / "shop"), str(home)))
    files = ProtectedFiles([home / "shop" / "rules.toml"])

    assert files.judge_text("rules.toml", resolver).answer == "maybe"
    assert files.judge_text("~/.claude/settings.json", resolver).answer == "maybe"
    assert files.judge_text("src/app.py", resolver).answer == "no"
    assert files.judge_text("a text\nof lines", resolver).answer == "no"
    assert files.judge_text("x" * 10_000, resolver).answer == "no"


def test_other_spellings_of_them_are_not_written_either(home):
    assert judge(home, "RULES.toml") == "yes"
    assert judge(home, ".MCP.json") == "yes"
    assert judge(home, "../SHOP", "destroy", action=("rm",)) == "no"
    (home / "SHOP/rules.toml").parent.mkdir()
    (home / "SHOP/toolbus.toml").touch()
    (home / "SHOP/.CLAUDE").mkdir()

    assert judge(home, ".CLAUDE", action=("tar",)) == "maybe"
    assert judge(home, "TOOLBUS", folder=None) == "maybe"


def test_a_store_is_known_by_its_header_wherever_it_is(home):
    file = home / "shop" / "sessions.db"

    async def write():
        async with SqliteStore(file) as store:
            await store.swap_state("s", "name", None, b"1")
            assert is_of_store(str(file))
            assert is_of_store(f"{file}-wal")
            # What was read is not closed: the store's locks are still there.
            await store.swap_state("s", "name", b"1", b"2")

    asyncio.run(write())

    assert judge(home, "sessions.db") == "yes"
    assert judge(home, "sessions.db-wal") == "yes"
    (home / "shop" / "link").symlink_to("sessions.db")
    assert judge(home, "link", "destroy", action=("rm",)) == "yes"
    assert not is_of_store(str(home / "shop" / "rules.toml"))
    assert not is_of_store("/nowhere")


def test_a_new_store_of_another_process_is_known_by_its_header(home):
    file, copy = home / "shop" / "sessions.db", home / "shop" / "copy.db"

    async def write():
        async with SqliteStore(file):
            copy.write_bytes(file.read_bytes())

    asyncio.run(write())

    assert is_of_store(str(copy))


def test_a_folder_with_the_store_of_a_session_is_not_removed(home):
    (home / "shop" / "data" / "new").mkdir(parents=True)

    async def remove():
        async with SqliteStore(home / "shop" / "data" / "s.db"):
            assert judge(home, "data", "destroy", action=("rm",)) == "yes"
            assert judge(home, "data/new", "destroy", action=("rm",)) == "no"

    asyncio.run(remove())

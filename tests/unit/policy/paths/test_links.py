"""Links that lead out of a folder, and commands that may make one."""

import os

import pytest

from toolbus.policy.commands import Command, CommandEffects, PathUse, Unreadable, Word
from toolbus.policy.paths import links
from toolbus.policy.paths.links import linked_folders, may_relink, path_stability
from toolbus.policy.paths.resolver import CallPlace, PathResolver


def effects(*action, kinds=("write",), options=(), target="out", known=True):
    uses = (PathUse(Word(target, known=known), "write"),) if "write" in kinds else ()
    return CommandEffects(frozenset(kinds), uses, action=action, options=frozenset(options))


@pytest.mark.parametrize(
    "action", [("mkdir",), ("tee",), ("rm",), ("git", "commit"), ("git", "add"), ("cp",)]
)
def test_what_fills_files_leaves_links_alone(action):
    assert not may_relink(effects(*action))


@pytest.mark.parametrize(
    "action", [("ln",), ("mv",), ("tar",), ("git", "checkout"), ("git",), ("rsync",)]
)
def test_what_may_make_links_does_not(action):
    assert may_relink(effects(*action))


def test_what_only_reads_changes_nothing():
    assert not may_relink(effects("mv", kinds=("read", "network")))


def test_what_is_not_known_may_do_anything():
    unknown = CommandEffects(frozenset({"read"}), unknown=(Unreadable("x", ""),), action=("x",))

    assert may_relink(unknown)
    assert may_relink(CommandEffects(frozenset({"read"})))
    assert may_relink(effects("tee", known=False))


def test_code_that_may_run_needs_no_link():
    assert not may_relink(effects("python", kinds=("run-code",)))
    assert not may_relink(effects("make", kinds=("run-code", "write")))


def test_copies_of_links_and_lists_of_what_is_left_out_count():
    assert may_relink(effects("cp", options={"-r"}))
    assert may_relink(effects("cp", options={"-a"}))
    assert may_relink(effects("tee", target="src/.gitignore"))


def test_a_command_is_unsettled_by_others_that_may_change_links():
    late = Command(Word("cat"), (), paths_stable=False)
    first = Command(Word("x"), ())

    assert path_stability([first, late], [effects("mkdir"), effects("cat")]) == (True, True)
    assert path_stability([first, late], [effects("ln"), effects("cat")]) == (True, False)


def test_links_to_folders_outside_are_found(tmp_path):
    real = tmp_path.resolve()
    folder, outside = real / "in", real / "outside"
    for each in (folder / "deep/deeper", outside, real / "in-a-name"):
        each.mkdir(parents=True)
    (outside / "file").write_text("x")
    for number, target in enumerate(
        ["../outside", "deep", outside / "file", "nowhere", "loop", real / "in-a-name", "/"]
    ):
        (folder / f"link{number}").symlink_to(target)
    (folder / "deep/deeper/link").symlink_to(outside)

    resolver = PathResolver(CallPlace("/"))

    links = linked_folders(str(folder), resolver)

    assert sorted({each.path for each in links}) == ["/", str(real / "in-a-name"), str(outside)]
    assert linked_folders(os.fspath(real / "nothing"), resolver) == []


def test_too_many_entries_are_not_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(links, "MOST_BELOW", 2)
    for number in range(3):
        (tmp_path / str(number)).touch()

    (folder,) = linked_folders(str(tmp_path), PathResolver(CallPlace("/")))

    assert "too many files" in folder.doubt

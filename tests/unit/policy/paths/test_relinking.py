import pytest

from toolbus.policy.commands import Command, CommandEffects, PathUse, Unreadable, Word
from toolbus.policy.paths.relinking import are_settled, may_relink


def effects(*action, kinds=("write",), options=(), target="out", known=True):
    uses = (PathUse(Word(target, known=known), "write"),) if "write" in kinds else ()
    return CommandEffects(frozenset(kinds), uses, action=action, options=frozenset(options))


@pytest.mark.parametrize("action", [("mkdir",), ("tee",), ("rm",), ("git", "commit"), ("cp",)])
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


def test_copies_of_links_and_lists_of_what_is_left_out_count():
    assert may_relink(effects("cp", options={"-r"}))
    assert may_relink(effects("tee", target="src/.gitignore"))


def test_a_command_is_unsettled_by_others_that_may_change_links():
    late = Command(Word("cat"), (), settled=False)
    first = Command(Word("x"), ())

    assert are_settled([first, late], [effects("mkdir"), effects("cat")]) == (True, True)
    assert are_settled([first, late], [effects("ln"), effects("cat")]) == (True, False)

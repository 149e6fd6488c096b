"""A marked block at the end of a TOML file."""

import tomllib
from pathlib import Path

import pytest

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.toml_blocks import append_block, find_block, remove_block

FILE = Path("hooks.toml")
OURS = 'name = "ours"'
BLOCK = '[[hooks]]\nname = "ours"\n'


@pytest.mark.parametrize(
    "text", ["", "a = 1\n", "# why\r\na = 1\r\n", '[[hooks]]\nname = "mine"\n', "[t]\nb = 2\n\n\n"]
)
def test_a_block_comes_and_goes_without_a_trace(text):
    longer = append_block(FILE, text, BLOCK, "hooks")

    assert tomllib.loads(longer.replace("\r\n", "\n"))["hooks"][-1] == {"name": "ours"}
    assert find_block(FILE, longer, "hooks", OURS) == BLOCK.rstrip()
    assert find_block(FILE, longer, "trust", OURS) is None
    assert remove_block(FILE, longer, "hooks", OURS) == text


def test_what_stands_behind_a_block_stays():
    longer = append_block(FILE, "a = 1\n", BLOCK, "hooks") + "[mine]\nb = 2\n"

    assert remove_block(FILE, longer, "hooks", OURS) == "a = 1\n[mine]\nb = 2\n"


def test_a_table_that_another_program_put_between_the_marks_stays():
    table = '# mine\n[tui]\ntheme = "x"\n'
    longer = append_block(FILE, "a = 1\n", BLOCK, "hooks")
    *lines, mark = longer.splitlines(keepends=True)
    edited = "".join([*lines, "\n", table, mark])

    assert find_block(FILE, edited, "hooks", OURS) == BLOCK.rstrip()
    assert remove_block(FILE, edited, "hooks", OURS) == f"a = 1\n{table}"


def test_a_missing_end_of_line_is_no_trap():
    longer = append_block(FILE, "a = 1", BLOCK, "hooks")

    assert tomllib.loads(longer) == {"a": 1, "hooks": [{"name": "ours"}]}
    assert remove_block(FILE, longer, "hooks", OURS) == "a = 1"


@pytest.mark.parametrize("text", ["a = 1", "a = 1\n", "# why\r\na = 1"])
@pytest.mark.parametrize("labels", [("hooks", "trust"), ("trust", "hooks")])
def test_two_blocks_come_and_go_in_any_order(text, labels):
    longer = append_block(FILE, text, BLOCK, "hooks")
    both = append_block(FILE, longer, "[trust]\nours = 1\n", "trust")
    patterns = {"hooks": OURS, "trust": "ours = 1"}

    left = remove_block(FILE, both, labels[0], patterns[labels[0]])

    assert find_block(FILE, left, labels[1], patterns[labels[1]]) is not None
    assert remove_block(FILE, left, labels[1], patterns[labels[1]]) == text


@pytest.mark.parametrize("text", ["a = \n", "hooks = []\n", "hooks = 1\n"])
def test_what_cannot_be_added_to_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"hooks\.toml"):
        append_block(FILE, text, BLOCK, "hooks")


@pytest.mark.parametrize("damage", ["begin", "end", "order", "twice"])
def test_a_block_without_its_marks_is_left_to_a_person(damage):
    begin, *lines, end = append_block(FILE, "", BLOCK, "hooks").splitlines()
    damaged = {
        "begin": [*lines, end],
        "end": [begin, *lines],
        "order": [end, *lines, begin],
        "twice": [begin, *lines, end, begin, *lines, end],
    }[damage]

    with pytest.raises(ConfigurationError, match="mark"):
        remove_block(FILE, "\n".join(damaged), "hooks", OURS)


def test_a_block_of_an_older_version_is_found():
    hint = "`toolbus hosts uninstall` takes out what stands up to the end"
    text = f"a = 1\n# >>> toolbus hooks ({hint})\n[[hooks]]\n# <<< toolbus hooks\n"

    assert find_block(FILE, text, "hooks", "hooks") == "[[hooks]]"
    assert remove_block(FILE, text, "hooks", "hooks") == "a = 1\n"

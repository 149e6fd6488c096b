import json
import os
from itertools import permutations

import pytest

from toolbus.settings.usage_error import UsageError
from toolbus.store.check.anchors import Anchor, AnchorList, extend_file, read_anchors

KEY = b"k" * 32
NAME, OTHER = b"n" * 16, b"o" * 16


def heads(letter):
    return (letter * 32, None, None)


def now(chains, forgotten=()):
    return Anchor(
        time="2026-01-01T00:00:00+00:00", store="s.db", chains=chains, forgotten=forgotten
    )


@pytest.fixture
def file(tmp_path):
    """Return a list of three lines."""
    path, anchors = tmp_path / "anchors.jsonl", AnchorList(KEY)
    for letter in (b"a", b"b", b"c"):
        extend_file(path, anchors, now({NAME: heads(letter), OTHER: heads(b"z")}))
    return path


def lines_of(file):
    return file.read_bytes().splitlines(keepends=True)


def test_a_line_has_what_changed(file):
    first, second, _ = [json.loads(line) for line in lines_of(file)]
    assert (len(first["chains"]), len(second["chains"])) == (2, 1)
    assert (first["previous"], second["previous"]) == ("", first["signature"])
    anchors = read_anchors(file, KEY)
    assert (anchors.lines, anchors.problem, anchors.is_torn) == (3, "", False)
    assert anchors.size == len(file.read_bytes())


def test_any_other_order_or_choice_of_lines_is_found(file):
    lines = lines_of(file)
    for count in (2, 3):
        for chosen in permutations(lines, count):
            file.write_bytes(b"".join(chosen))
            is_beginning = list(chosen) == lines[:count]
            assert bool(read_anchors(file, KEY).problem) != is_beginning


def test_a_repeated_line_is_found(file):
    first, *rest = lines_of(file)
    file.write_bytes(b"".join([first, first, *rest]))
    assert "line 2 does not follow" in read_anchors(file, KEY).problem


def test_any_changed_byte_is_found(file):
    data = file.read_bytes()
    for place in range(0, len(data), 7):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        anchors = read_anchors(file, KEY)
        assert anchors.problem or anchors.is_torn, place


def test_the_key_itself_signs_no_line(file):
    derived = AnchorList(KEY)._key
    assert read_anchors(file, derived).problem.startswith("line 1 has a wrong signature")


def test_a_signed_line_of_a_newer_toolbus_is_no_crash(tmp_path):
    anchors, file = AnchorList(KEY), tmp_path / "new.jsonl"
    signed = b'{"toolbus_anchor":2,"chains":[1]'
    file.write_bytes(signed + anchors._ending(signed))
    assert read_anchors(file, KEY).problem == "line 1 was written by a newer toolbus"


@pytest.mark.parametrize("cut", [1, 2, 70, 200])
def test_an_unfinished_line_is_replaced(file, cut):
    file.write_bytes(file.read_bytes()[:-cut])
    assert read_anchors(file, KEY).is_torn
    extend_file(file, AnchorList(KEY), now({NAME: heads(b"d")}))
    anchors = read_anchors(file, KEY)
    assert (anchors.lines, anchors.problem, anchors.is_torn) == (3, "", False)


@pytest.mark.parametrize("text", [b"notes", b"notes\n", b'{"a":1}\n', b"\0" * 5000, b"\xff\n" * 9])
def test_another_file_stays_as_it_is(tmp_path, text):
    file = tmp_path / "notes.txt"
    file.write_bytes(text)
    with pytest.raises(UsageError, match="not a list of `toolbus anchor`"):
        extend_file(file, AnchorList(KEY), now({}))
    assert file.read_bytes() == text


def test_only_a_regular_file_of_this_user_is_extended(tmp_path, file):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="symbolic links"):
        extend_file(link, AnchorList(KEY), now({}))
    with pytest.raises(UsageError, match="symbolic links"):
        read_anchors(link, KEY)
    for run in (extend_file, read_anchors):
        with pytest.raises(UsageError, match="not a regular file"):
            run(pipe, *((AnchorList(KEY), now({})) if run is extend_file else (KEY,)))
    file.chmod(0o666)
    with pytest.raises(UsageError, match="others may write it"):
        extend_file(file, AnchorList(KEY), now({NAME: heads(b"d")}))


def test_two_processes_extend_one_list(file):
    first, second = AnchorList(KEY), AnchorList(KEY)
    for anchors in (first, second, first, second):
        extend_file(file, anchors, now({NAME: heads(b"d")}))
    assert (read_anchors(file, KEY).lines, read_anchors(file, KEY).problem) == (7, "")


def test_a_list_cut_between_two_lines_is_not_extended(file):
    anchors = AnchorList(KEY)
    extend_file(file, anchors, now({NAME: heads(b"d")}))
    file.write_bytes(b"".join(lines_of(file)[:2]))
    with pytest.raises(UsageError, match="line 4 was changed or removed"):
        extend_file(file, anchors, now({NAME: heads(b"e")}))


def test_a_list_replaced_between_two_lines_is_not_extended(file):
    anchors, lines = AnchorList(KEY), lines_of(file)
    extend_file(file, anchors, now({NAME: heads(b"d")}))
    file.write_bytes(b"".join([*lines_of(file), lines[1]]))
    with pytest.raises(UsageError, match="line 5 does not follow"):
        extend_file(file, anchors, now({NAME: heads(b"e")}))


def test_a_list_of_another_store_is_not_extended(file):
    with pytest.raises(UsageError, match="the list of another store"):
        extend_file(file, AnchorList(KEY), now({b"x" * 16: heads(b"x")}))
    extend_file(file, AnchorList(KEY), now({b"x" * 16: heads(b"x")}, forgotten=(NAME,)))
    assert read_anchors(file, KEY).newest.forgotten == (NAME,)


def test_a_link_of_another_chain_or_kind_does_not_count(file):
    anchors = read_anchors(file, KEY)
    for letter in (b"a", b"b", b"c"):
        anchors.seen(NAME, 1, letter * 32)
        anchors.seen(OTHER, 0, letter * 32)
    anchors.seen(OTHER, 0, b"z" * 32)
    (finding,) = anchors.findings({NAME: "s1", OTHER: "s2"}, set())
    assert finding.startswith("session 's1' lacks")
    assert "line 1" in finding


def test_a_chain_without_a_session_is_found_unless_it_is_forgotten(file):
    anchors = read_anchors(file, KEY)
    anchors.seen(OTHER, 0, b"z" * 32)
    assert list(anchors.findings({OTHER: "s2"}, {NAME})) == []
    (finding,) = anchors.findings({OTHER: "s2"}, set())
    assert finding.startswith("a chain without a session, first in line 1: removed without")


def test_a_forgotten_session_that_is_back_is_found(file):
    extend_file(file, AnchorList(KEY), now({OTHER: heads(b"z")}, forgotten=(NAME,)))
    anchors = read_anchors(file, KEY)
    for letter in (b"a", b"b", b"c"):
        anchors.seen(NAME, 0, letter * 32)
    anchors.seen(OTHER, 0, b"z" * 32)
    (finding,) = anchors.findings({NAME: "s1", OTHER: "s2"}, set())
    assert finding == "session 's1' was forgotten by line 4, and is in the store again"

"""Lines of a file by what a model reads of it, and where an edit puts them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.records import ToolCall
from toolbus.redaction.written_back import _with_lines, own_lines

SHOWN, OWN = "KEY=[key-aaaaaaaaaaaaaaaa]", "KEY=secret"
LINES = {SHOWN: OWN}


def restored(shown):
    return shown.replace("[block]", "one\ntwo\nthree")


def filled(text, **arguments):
    call = ToolCall(name="edit", arguments=arguments)
    return dict(_with_lines(call, text, LINES).arguments)


@pytest.mark.parametrize(
    ("text", "cleaned", "lines"),
    [
        ("a\nb", "a\nb", {}),
        ("a\nsecret\n", "a\n[x]\n", {"[x]": "secret"}),
        (
            "  k: one\ntwo\nthree\nz\n",
            "  k: [block]\nz\n",
            {"\n  k: [block]": "k: one\ntwo\nthree"},
        ),
        ("one\ntwo\n", "[block]\n", {}),
        ("a\nb\nc", "[x]\n", {}),
        ("s1\ns2\n", "[x]\n[x]\n", {}),
        ("s1\ns2\n", "\n[x]\n", {}),
    ],
)
def test_lines_belong_together_or_none_do(text, cleaned, lines):
    assert own_lines(text, cleaned, restored) == lines


@pytest.mark.parametrize(
    ("text", "old", "new", "fills"),
    [
        ("a\nb\n", "b", SHOWN, True),
        ("a\nb", "b", SHOWN, True),
        ("a\n  b\n", "b", SHOWN, True),
        ("a\nb\n", "b\n", f"{SHOWN}\n", True),
        ("a\nb\n", "a\nb\n", f"{SHOWN}\n", True),
        ("a\r\nb\r\n", "a\nb\n", f"{SHOWN}\n", True),
        ("a\nb\n", "b\n", SHOWN, False),
        ("x?b\n", "b", SHOWN, False),
        ("b?x\n", "b", SHOWN, False),
        ("b\nx?b\n", "b", SHOWN, False),
        ("bb\n", "b", SHOWN, False),
        ("a\n", "b", SHOWN, False),
        ("a\n", "", SHOWN, False),
    ],
)
def test_an_edit_replaces_whole_lines(text, old, new, fills):
    text = text.replace("\r\n", "\n")
    done = new.replace(SHOWN, OWN) if fills else new

    assert filled(text, old_string=old, new_string=new)["new_string"] == done
    edits = filled(text, edits=[{"oldText": old, "newText": new}])["edits"]
    assert edits[0]["newText"] == done
    many = filled(text, edits=[{"oldText": old, "newText": new}, {}])["edits"]
    assert many[0]["newText"] == new


WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", "x=", SHOWN]), max_size=12).map("".join)


@given(WORDS, WORDS, WORDS)
def test_a_value_stands_alone_in_its_line(text, old, new):
    text = text.replace(SHOWN, OWN)
    done = filled(text, old_string=old, new_string=new)
    after = text.replace(done["old_string"], done["new_string"]) if old else text

    before = re.findall(rf".*{OWN}.*", text)
    for line in re.findall(rf".*{OWN}.*", after):
        assert line.strip() == OWN or line in before or OWN not in done["new_string"]

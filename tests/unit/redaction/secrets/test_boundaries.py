"""Where a growing text may be cut."""

import pytest

from toolbus.redaction.secrets.boundaries import Boundaries, boundaries_of, candidates
from toolbus.redaction.secrets.rules import Rule, choose

ALL = boundaries_of(choose((), (), {}))
LABEL, BODY = "PRIVATE " + "KEY", "abcdefgh" * 8


def is_open(text, begin=0):
    return ALL.is_open(text.encode(), len(text[:begin].encode()))


def test_texts_are_cut_within_their_lines():
    text = "  one two\n    three\tfour\u3002five"

    assert [text[:end] for end in candidates(text, 0)] == [
        "  one ",
        "  one two\n    three\t",
        "  one two\n    three\tfour\u3002",
    ]
    assert next(candidates(text, 7), None) == len("  one two\n    three\t")


@pytest.mark.parametrize(
    "text",
    [
        "To begin with, look at the log. ",
        "for name in names:\n    print(name) ",
        "my password was changed yesterday, as you know, by somebody else who has it. No more ",
        f"-----BEGIN {LABEL}-----\n{BODY}\n-----END {LABEL}-----\nand so it goes on as before ",
        '{"a": [1, 2]} ',
        "\x1b[31mred\x1b[0m and ",
        "one \\\n  two three four ",
        "text: >\n  abc def ",
        "INSERT INTO t (id, password) VALUES (1, 'x'); and then ",
        "user,password\na,b\nno row\nat all ",
        "| a | b |\n| c ",
        "先打开设置\u3002",
    ],
)
def test_what_is_whole_stays(text):
    assert not is_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "my password ",
        "the password is ",
        'const password = "correct horse ',
        "password: ",
        f"-----BEGIN {LABEL}-----\nabc ",
        "curl -u jane:x ",
        "authorization: bearer ",
        "adafruit key ",
        "\x1b[3 ",
        "\x1b]0;title of ",
        "ab\\\n  cd ",
        "text: >\n  abc\n  def ",
        "INSERT INTO t (id, password) VALUES (1, 'x'), ",
        "COPY t (id, password) FROM stdin;\n1\tabc\n2 ",
        "user,password\na,b\nc ",
        "| user | password | since ",
        "| user | password |\n|---|---|\n| jane ",
        '{"client_secret": "x", ',
        "密码是 ",
    ],
)
def test_what_may_go_on_is_open(text):
    assert is_open(f"Well then:\n{text}")


def test_what_began_before_counts_no_more():
    text = "my password "

    assert is_open(text)
    assert not is_open(text + "or not, who knows what will happen to all of this here ", len(text))


def test_rules_of_a_user_are_looked_for():
    own = Boundaries((Rule("ticket", r"ticket\s+no\s+[0-9]{6}", foreign=True),))

    assert own.is_open(b"see ticket ", 0)
    assert own.is_open(b"see ticket no ", 0)
    assert not own.is_open(b"see ticket yes ", 0)

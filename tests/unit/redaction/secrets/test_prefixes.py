"""What ends in a beginning of something that an expression matches."""

import random
import string

import pytest

from toolbus.redaction.secrets.expressions import compiled
from toolbus.redaction.secrets.prefixes import (
    Atom,
    Choice,
    PatternShape,
    Repeat,
    Sequence,
    shape_of,
)
from toolbus.redaction.secrets.rules import choose

ENDLESS = -1
SIGNS = string.ascii_letters + string.digits + string.punctuation + " \t\n"


def is_beginning(pattern, text):
    return (
        compiled(f"(?:{PatternShape(pattern).beginnings()})").fullmatch(text.encode()) is not None
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "ab{3}c",
        "a(?:bc|de)+f",
        "(?i)key[ =]{1,3}([a-f0-9]{4})(?:[^0-9]|$)",
        r"x(?i)y(?-i:Z)\d{2,}",
        "a(b(c|d)?e){2}",
        r"\ba[]x]\]b",
        "(?P<name>se(?i)cret|to(ken)?)=",
        "a*?b+?c??d{0,2}?",
        r"(?m)^a\.b$",
    ],
)
def test_all_beginnings_of_a_match_are_known(pattern):
    rnd = random.Random(pattern)
    for _ in range(40):
        text = example(shape_of(pattern), rnd)
        assert compiled(pattern).fullmatch(text.encode())
        assert all(is_beginning(pattern, text[:end]) for end in range(len(text) + 1))


@pytest.mark.parametrize(
    ("pattern", "text"), [("ab{3}c", "abbbb"), ("(?:foo|bar)+", "fob"), ("(?i)a[0-9]", "aB")]
)
def test_other_texts_are_none(pattern, text):
    assert not is_beginning(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "goes_on"),
    [
        ("ghp_[A-Za-z0-9]{36}(?:[^0-9A-Za-z]|$)", False),
        ("key[ \t]{0,20}=", True),
        (r"a\s", False),
        (r"a\s$", False),
        (r"(?:a\s)?b", True),
        (r"(?:a\s){2}", True),
        (r"[^x]+", True),
    ],
)
def test_it_is_known_what_goes_on_behind_a_blank(pattern, goes_on):
    assert PatternShape(pattern).goes_on_behind(" ") is goes_on


@pytest.mark.parametrize(
    ("pattern", "heads"),
    [
        ("(?i)(?:adobe|box)x=", {"adobe", "box"}),
        (r"\bcurl\b.*", {"curl"}),
        ("[Mm]eraki", {"meraki"}),
        (r"(?:^|\n)[ \t-]*data:", {"data:"}),
        ("[\"']?key=", {"key="}),
        ("[ \t]*key", set()),
        ("(?:ab)?key", set()),
        ("a[bc]", set()),
        (r"https?\.", {"http"}),
    ],
)
def test_it_is_known_what_all_matches_begin_with(pattern, heads):
    assert PatternShape(pattern).heads() == heads


def test_only_what_is_lazy_ends_early():
    assert PatternShape(r"begin[\s\S]*?end").ends_early()
    assert not PatternShape(r"begin[\s\S]*end").ends_early()
    assert PatternShape("begin[a-z]*").ends_early()


def test_beginnings_of_what_every_rule_finds_are_known():
    rnd, count = random.Random(1), 0
    for rule in choose((), (), {}):
        expression = compiled(rule.pattern)
        texts = [example(shape_of(rule.pattern), rnd) for _ in range(3)]
        # Some have no border of a word where one is asked for.
        matching = [text for text in texts if expression.fullmatch(text.encode())]
        count += bool(matching)
        for text in matching:
            end = rnd.randrange(len(text) + 1)
            assert is_beginning(rule.pattern, text[:end]), (rule.name, text[:end])

    assert count > 500


def example(node, rnd):
    """Return a text that *node* matches, but for what its anchors say."""
    match node:
        case Atom(empty=True):
            return ""
        case Atom():
            return rnd.choice(signs_of(node))
        case Repeat(item, least, most, _):
            most = least + rnd.choice([0, 1, 4]) if most == ENDLESS else most
            return "".join(
                [example(item, rnd) for _ in range(rnd.randint(least, min(most, least + 6)))]
            )
        case Sequence(items):
            return "".join([example(item, rnd) for item in items])
        case Choice(items):
            return example(rnd.choice(items), rnd)


_SIGNS_OF = {}


def signs_of(atom):
    if atom not in _SIGNS_OF:
        expression = compiled(f"^(?{atom.flags}:{atom.text})$")
        fitting = [sign for sign in SIGNS if expression.search(sign.encode())]
        plain = [sign for sign in fitting if sign.isalnum()]
        _SIGNS_OF[atom] = plain * 8 + fitting or [""]
    return _SIGNS_OF[atom]

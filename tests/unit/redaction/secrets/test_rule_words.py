"""Which rules may match is told before any of them is looked for."""

import re
import re._constants as op
import re._parser as parser
import string
from collections import Counter
from functools import cache
from random import Random

import pytest
import re2
from benchmarks.redaction import corpus
from benchmarks.redaction.keywords import keywords, translated
from msgspec import structs

from toolbus.redaction.secrets import engine as engines
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.expressions import ExpressionSet
from toolbus.redaction.secrets.rules import Rule, choose

RULES = choose((), (), {})
EXAMPLES = [example.text for example in corpus.examples()]
LETTERS = string.printable[:-2]


def found(engine, text):
    return {(hit.start, hit.end, hit.number) for hit in engine.find(text.encode()) if hit}


def alone(rules):
    """Return an engine that looks for each rule by itself."""
    return Engine(tuple([structs.replace(rule, keywords=(), foreign=True) for rule in rules]))


def test_keywords_are_those_of_the_patterns():
    """After a change to a rule: `python -m benchmarks.redaction.update_rules`."""
    assert {rule.name: rule.keywords for rule in RULES} == {
        rule.name: keywords(rule.pattern) for rule in RULES
    }


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\bghp_[a-z]{36}\b", ("ghp_",)),
        (r"(?i)(?:Acme|zyx_(?:live|test))[\s:=]+([a-f0-9]{32})", ("acme", "zyx_live", "zyx_test")),
        (r"gh[pous]_\w{36}", ("gho_", "ghp_", "ghs_", "ghu_")),
        (r"(?:key|secret-key).{0,9}CAIS[a-z]+", ("cais",)),
        (r"(?:ab){2}c?d", ("ababcd", "ababd")),
        (r"a+b|c", ("a", "c")),
        (r"[a-z]{20}", ()),
        (r"(?:token)?[0-9]{20}", ()),
        (r"ключ=\d+", ("=",)),
    ],
)
def test_a_word_of_each_way_to_match_is_a_keyword(pattern, words):
    assert keywords(pattern) == words


@pytest.mark.parametrize("tries", [5, pytest.param(20, marks=pytest.mark.full)])
def test_what_a_rule_matches_has_one_of_its_keywords_and_gates(tries):
    dice, matched = Random(1), Counter()
    for rule in RULES:
        expression, tree = re2.compile(rule.pattern), parser.parse(translated(rule.pattern))
        for match in filter(None, [expression.search(a_match(tree, dice)) for _ in range(tries)]):
            matched[rule.name] += 1
            words = rule.keywords or ("",)  # With none it always is looked for.
            assert any(word in match[0].lower() for word in words), rule.name
            gates = rule.gates or ("",)
            assert any(re2.search(gate, match[0]) for gate in gates), rule.name

    assert {*matched} == {rule.name for rule in RULES}


def a_match(tree, dice):
    """Return a text that the pattern with this syntax *tree* matches, if it stands alone."""
    return "".join([a_piece(kind, value, dice) for kind, value in tree])


def a_piece(kind, value, dice):
    match kind:
        case op.LITERAL:
            return chr(value)
        case op.IN:
            return dice.choice(letters_of(tuple(value)))
        case op.ANY | op.NOT_LITERAL:
            return dice.choice("a0 -")
        case op.SUBPATTERN:
            return a_match(value[-1], dice)
        case op.BRANCH:
            return a_match(dice.choice(value[1]), dice)
        case op.MAX_REPEAT | op.MIN_REPEAT:
            times = dice.randint(value[0], min(value[1], value[0] + 3))
            return "".join([a_match(value[2], dice) for _ in range(times)])
    return ""


@cache
def letters_of(parts):
    """Return the letters of a set; its first part may say that it has all others."""
    is_negated = parts[0][0] is op.NEGATE
    others = parts[is_negated:]
    return [
        letter for letter in LETTERS if is_negated != any(holds(*part, letter) for part in others)
    ]


def holds(kind, value, letter):
    match kind:
        case op.LITERAL:
            return ord(letter) == value
        case op.RANGE:
            return value[0] <= ord(letter) <= value[1]
    category = {"WORD": r"\w", "DIGIT": r"\d", "SPACE": r"\s"}[str(value).rpartition("_")[2]]
    return ("NOT" in str(value)) != bool(re.match(category, letter, re.ASCII))


@pytest.mark.full
def test_rules_in_groups_find_what_each_finds_alone(monkeypatch):
    monkeypatch.setattr(engines, "_USUAL", [word for rule in RULES for word in rule.keywords])
    engine, one_by_one = Engine(RULES), alone(RULES)

    together = [found(engine, text) for text in EXAMPLES]

    grouped = {number for group in engine._usual for number in group}
    assert grouped == {number for number, rule in enumerate(RULES) if rule.keywords}
    assert together == [found(one_by_one, text) for text in EXAMPLES]


def test_of_a_set_that_cannot_tell_every_rule_is_looked_for(monkeypatch):
    engine = Engine(RULES)
    monkeypatch.setattr(re2.Set, "Match", lambda self, text: None)

    assert found(engine, EXAMPLES[0]) == found(alone(RULES), EXAMPLES[0])


def test_a_set_tells_whose_words_are_in_a_text():
    words = ExpressionSet(["(?i)ab", r"(?i)b\.", "(?i)c"])

    assert [sorted(words.match(data)) for data in (b"xABx", b"b.C", b"bx", b"")] == [
        [0],
        [1, 2],
        [],
        [],
    ]


def test_a_rule_is_compiled_when_a_text_has_its_words():
    engine = Engine((Rule("mark", r"MARK-(\d{20})", keywords=("mark-",)), Rule("any", "xyz")))

    assert found(engine, "nothing") == set()
    assert engine._searches == {}
    assert found(engine, "mark- MARK-" + "1" * 20) == {(11, 31, 0)}
    assert [*engine._searches] == [0]

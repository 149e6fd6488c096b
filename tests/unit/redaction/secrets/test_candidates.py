"""Which rules may match is told before any of them is looked for."""

import re

import pytest
import re2
from benchmarks.redaction import corpus
from benchmarks.redaction.keywords import keywords, translated
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from toolbus.redaction.secrets import candidates
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.expressions import ExpressionSet
from toolbus.redaction.secrets.rules import Rule, choose

RULES = choose((), (), {})
EXAMPLES = [example.text for example in corpus.examples()]
LETTERS = st.characters(min_codepoint=9, max_codepoint=126, exclude_categories=["Cc"])


def found(engine, text):
    return {(hit.start, hit.end, hit.number) for hit in engine.find(text.encode()) if hit}


def alone(rules):
    """Return an engine that looks for each rule by itself."""
    return Engine(
        tuple([Rule(rule.name, rule.pattern, rule.group, foreign=True) for rule in rules])
    )


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


@pytest.mark.full
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_a_rule_matches_has_one_of_its_keywords(rule):
    expression = re2.compile(rule.pattern)

    @settings(max_examples=4, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.from_regex(re.compile(translated(rule.pattern)), alphabet=LETTERS))
    def check(text):
        if (match := expression.search(text)) is not None:
            assert any(word in match[0].lower() for word in rule.keywords)

    check()


def test_rules_in_groups_find_what_each_finds_alone(monkeypatch):
    monkeypatch.setattr(candidates, "_GROUPED_AFTER", (1,))
    engine, one_by_one = Engine(RULES), alone(RULES)
    found(engine, " ".join([word for rule in RULES for word in rule.keywords]))

    together = [found(engine, text) for text in EXAMPLES]

    grouped = {number for numbers, _ in engine._candidates._groups._groups for number in numbers}
    assert grouped == set(range(len(RULES)))
    assert together == [found(one_by_one, text) for text in EXAMPLES]


def test_of_a_set_that_cannot_tell_every_rule_is_looked_for(monkeypatch):
    engine = Engine(RULES)
    monkeypatch.setattr(re2.Set, "Match", lambda self, text: None)

    assert found(engine, EXAMPLES[0]) == found(alone(RULES), EXAMPLES[0])


def test_a_set_tells_whose_words_are_in_a_text():
    words = ExpressionSet(["ab", "b.", "c"], literal=True)

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

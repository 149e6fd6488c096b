import pytest
import re2
from benchmarks.redaction import corpus

from toolbus.errors import RegistrationError
from toolbus.redaction.secrets.engine import STEP, Engine, engine_for
from toolbus.redaction.secrets.rules import Rule, choose

EXAMPLES = corpus.examples()


def found(engine, text):
    return {(hit.start, hit.end, hit.number) for hit in engine.find(text.encode()) if hit}


def test_rules_that_are_searched_together_find_what_each_finds_alone():
    engine = engine_for(choose((), (), {}))
    usual = {number for numbers, _ in engine._usual for number in numbers}
    alone = Engine(tuple([as_a_users(rule) for rule in engine.rules]))

    together = [found(engine, example.text) for example in EXAMPLES]

    assert len(usual) >= 20
    assert together == [found(alone, example.text) for example in EXAMPLES]


def as_a_users(rule):
    """Return *rule* as a user's, which is searched for by itself."""
    return Rule(rule.name, rule.pattern, rule.group, rule.loose, foreign=True)


def test_a_set_that_finds_nothing_at_all_is_no_answer(monkeypatch):
    engine = Engine(choose((), (), {}))
    monkeypatch.setattr(re2.Set, "Match", lambda self, text: None)

    with pytest.raises(MemoryError):
        found(engine, "a text")


@pytest.mark.parametrize("at", [STEP - 40, STEP - 20, STEP - 1, STEP, STEP + 1, 2 * STEP - 10])
def test_what_stands_where_two_windows_meet_is_found_once(at):
    engine = Engine((Rule("mark", r"\bMARK-(\d{20})\b"),))
    mark = "MARK-" + "1234567890" * 2
    text = " " * at + mark + " " * STEP

    (hit,) = filter(None, engine.find(text.encode()))

    assert (hit.start, hit.end) == (at + 5, at + 25)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(?:a|a)*b", r"(.*)*x", r"((a*)*)*c"])
def test_a_hostile_text_is_looked_at_as_often_as_any_other(pattern):
    engine = Engine((Rule("boom", pattern + "z"),))
    looks = {}

    for name, text in {"hostile": "a" * 1_000_000, "plain": "b" * 1_000_000}.items():
        looks[name] = len(list(engine.find(text.encode())))

    assert looks["hostile"] == looks["plain"] == -(-1_000_000 // STEP)


def test_no_rules_find_nothing():
    assert found(Engine(()), "ghp_" * 20) == set()


def test_a_rule_that_cannot_be_read_is_named():
    with pytest.raises(RegistrationError, match="rule 'mine': RE2 cannot read it"):
        Engine((Rule("mine", r"(?<=a)b"),))


def test_of_several_quotes_the_group_that_holds_something_is_the_secret():
    engine = Engine((Rule("mark", r"""(?P<name>MARK)=(?:"([^"]+)"|'([^']+)')"""),))

    hits = filter(None, engine.find(b"""MARK="one" MARK='two'"""))

    assert [(hit.start, hit.end, hit.name) for hit in hits] == [(6, 9, (0, 4)), (17, 20, (11, 15))]

import pytest
from benchmarks.redaction import corpus

from toolbus.errors import RegistrationError
from toolbus.redaction.secrets.engine import STEP, Engine
from toolbus.redaction.secrets.rules import Rule

EXAMPLES = corpus.examples()


def found(engine, text):
    return {(hit.start, hit.end, hit.number) for hit in engine.find(text.encode()) if hit}


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

    assert looks["hostile"] == looks["plain"] == 1_000_000 // STEP


def test_no_rules_find_nothing():
    assert found(Engine(()), "ghp_" * 20) == set()


def test_a_rule_that_cannot_be_read_is_named():
    with pytest.raises(RegistrationError, match="rule 'mine': RE2 cannot read it"):
        Engine((Rule("mine", r"(?<=a)b"),))


def test_of_several_quotes_the_group_that_holds_something_is_the_secret():
    engine = Engine((Rule("mark", r"""(?P<name>MARK)=(?:"([^"]+)"|'([^']+)')"""),))

    hits = filter(None, engine.find(b"""MARK="one" MARK='two'"""))

    assert [(hit.start, hit.end, hit.name) for hit in hits] == [(6, 9, (0, 4)), (17, 20, (11, 15))]

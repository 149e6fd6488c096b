"""What was promised of the published examples, as counts."""

from importlib.resources import files

import pytest
from benchmarks.redaction import corpus
from benchmarks.redaction.scanners import Ours

from toolbus.redaction.secrets.rules import builtin, published

EXAMPLES = corpus.examples()


def test_at_least_sixty_formats_are_listed_and_have_examples():
    names = corpus.formats()

    assert len(names) == len(set(names)) >= 60
    assert len({one.format for one in EXAMPLES}) >= 60
    assert {one.format for one in EXAMPLES} <= set(names)


@pytest.mark.parametrize("reported", [False, True])
def test_of_each_half_at_most_one_in_twenty_is_missed(reported):
    half = [one for one in EXAMPLES if one.reported is reported]

    cleaned = Ours().cleaned([one.text for one in half])

    missed = [one.format for one, text in zip(half, cleaned, strict=True) if one.secret in text]
    assert len(half) >= 60
    assert len(missed) <= len(half) / 20, missed


def test_at_most_one_in_ten_look_alikes_is_taken():
    texts = corpus.lookalikes()

    cleaned = Ours().cleaned(texts)

    taken = [text for text, clean in zip(texts, cleaned, strict=True) if clean != text]
    assert len(texts) >= 60
    assert len(taken) <= len(texts) / 10, taken


def test_no_scanner_finds_the_examples_in_this_repository():
    written = (corpus.HERE / "examples.toml").read_text("utf-8")

    assert not [one.format for one in EXAMPLES if len(one.secret) > 16 and one.secret in written]


def test_the_published_rules_say_whose_they_are():
    folder = files("toolbus.redaction.secrets")

    notice = folder.joinpath("rules.NOTICE").read_text("utf-8")

    assert all(name in notice for name in ("MIT License", "Zachary Rice", "Apache License"))
    assert '"version": "' in folder.joinpath("rules.json").read_text("utf-8")[:200]


def test_every_rule_has_a_name_that_a_placeholder_can_have():
    rules = [*published(), *builtin()]

    assert len(rules) > 400
    assert not [one.name for one in rules if not one.name.replace("-", "a").isalnum()]
    assert all(one.name == one.name.lower() for one in rules)

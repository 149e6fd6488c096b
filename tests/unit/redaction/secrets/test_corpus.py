"""What was promised of the published examples, as counts."""

from importlib.resources import files

import pytest
from benchmarks.redaction import corpus, sets
from benchmarks.redaction.scanners import Ours
from benchmarks.redaction.values import Values

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


# `upload_token` is what Codecov calls its secret; Google Photos has ids of that name.
SECRETS_ELSEWHERE = {"upload token"}


def test_ids_that_the_next_call_needs_pass():
    cases = [one for half in (False, True) for one in sets.ids_to_hand_back(reported=half)]

    cleaned = Ours().cleaned([one.text for one in cases])

    assert len({one.name for one in cases}) >= 100
    changed = {one.name for one, text in zip(cases, cleaned, strict=True) if one.text != text}
    assert changed == SECRETS_ELSEWHERE


# Prefixes that vendors give their keys, each drawn anew: shapes of their documentation.
KEYS = """
    nfp_[A-Za-z0-9]{36} fo1_[A-Za-z0-9]{43} lin_oauth_[0-9a-f]{64} rnd_[A-Za-z0-9]{32}
    re_[A-Za-z0-9]{32} e2b_[0-9a-f]{40} sqp_[0-9a-f]{40} squ_[0-9a-f]{40} ck_[0-9a-f]{40}
    cs_[0-9a-f]{40} live_[A-Za-z0-9]{30} test_[0-9a-f]{35} cal_live_[0-9a-f]{32} bkaj_[0-9a-f]{40}
    sbp_v0_[0-9a-f]{40} testsk_[A-Za-z0-9]{32} alcht_[A-Za-z0-9]{30} n8n_api_[A-Za-z0-9]{40}
    dtn_[0-9a-f]{64} rpa_[A-Za-z0-9]{40} ek_[0-9a-f]{32} sk_[A-Za-z0-9]{43} key_[0-9a-f]{64}
    tr_prod_[A-Za-z0-9]{32} token_[0-9a-f]{40} pat_[A-Za-z0-9]{40} api_[A-Za-z0-9]{32}
    hcaik_01[a-z0-9]{58} ddapp_[A-Za-z0-9]{34} cfk_[A-Za-z0-9]{40}[0-9a-f]{8}
"""


@pytest.mark.parametrize("shape", KEYS.split())
def test_a_key_with_its_vendors_prefix_is_found_without_a_name(shape):
    value = Values(shape).make(shape)

    (cleaned,) = Ours().cleaned([f"It is {value} now"])

    assert cleaned.startswith("It is [prefixed-token-")
    assert cleaned.endswith("] now")


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

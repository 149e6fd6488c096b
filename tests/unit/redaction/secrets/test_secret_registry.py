import asyncio
from base64 import b64encode
from itertools import pairwise
from random import Random

import pytest

from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.placeholders import evened
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.plausibility import is_plausible
from toolbus.redaction.secrets.randomness import is_telling
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose
from toolbus.redaction.secrets.secret_registry import (
    MAX_ASSUMED,
    MAX_CHARS,
    MAX_SECRETS,
    SecretRegistry,
    SessionRegistries,
)
from toolbus.redaction.secrets.secret_search import forms_of

LETTERS = "".join(Random(1).choices([chr(at) for at in range(33, 127)], k=16_000))


def found(registry, text):
    return [hit.rule.name for hit in registry.search.find(text.encode()) if hit]


def secret(number):
    return f"s3cr3t-{number:05}-{number * 7919 % 100_003:06}-x"


@pytest.mark.parametrize("size", [100, 1_500, 5_000, 16_000])
def test_a_long_secret_is_found_in_every_form_from_end_to_end(size):
    registry = SecretRegistry()
    value = LETTERS[:size]
    registry.placeholder(value, "long")

    for form in (value, value.encode().hex(), b64encode(b"x" + value.encode() + b"y").decode()):
        hits = sorted([(hit.start, hit.end) for hit in registry.search.find(form.encode()) if hit])

        assert hits[0][0] <= 4
        assert hits[-1][1] >= len(form) - 4
        assert all(b[0] - a[1] <= 2 for a, b in pairwise(hits))


def test_the_oldest_secrets_are_forgotten_and_their_names_given_to_no_other():
    registry = SecretRegistry()
    names = [registry.placeholder(secret(number), "a") for number in range(MAX_SECRETS + 3)]

    registry.shrink()

    assert len(registry) == MAX_SECRETS
    assert [registry.restored(name) == name for name in names[:4]] == [True, True, True, False]
    assert found(registry, f"{secret(0)} {secret(3)}") == [names[3]]
    assert registry.placeholder("another-s3cr3t-of-all-0", "a") not in names
    assert registry.placeholder(secret(0), "a") == names[0]


def test_what_is_kept_is_bounded_in_letters_too():
    registry = SecretRegistry()
    for number in range(10):
        registry.placeholder(f"{number:05}" + LETTERS, "long")
        registry.shrink()

    assert len(registry) == MAX_CHARS // 16_005


def test_a_used_secret_is_not_the_oldest():
    registry = SecretRegistry()
    first = registry.placeholder(secret(0), "a")
    for number in range(1, MAX_SECRETS):
        registry.placeholder(secret(number), "a")
    registry.placeholder(secret(0), "a")
    registry.placeholder(secret(MAX_SECRETS), "a")

    registry.shrink()

    assert registry.restored(first) == secret(0)


def test_an_assumed_secret_is_not_searched_for():
    registry = SecretRegistry()

    first = registry.placeholder(secret(7_007), "a", assumed=True)
    again = registry.placeholder(secret(7_007), "b", assumed=True)

    assert first == again
    assert found(registry, secret(7_007)) == []


def test_an_assumed_secret_that_was_given_back_is_known():
    registry = SecretRegistry()
    name = registry.placeholder(secret(7_007), "a", assumed=True)

    assert registry.restored(f"x {name}") == f"x {secret(7_007)}"
    assert found(registry, secret(7_007)) == [name]
    assert registry.placeholder(secret(7_007), "b", assumed=True) == name


def test_an_assumed_secret_that_is_found_by_its_format_is_known():
    registry = SecretRegistry()
    name = registry.placeholder(secret(7_007), "a", assumed=True)

    assert registry.placeholder(secret(7_007), "b") == name
    assert found(registry, secret(7_007)) == [name]


@pytest.mark.full
def test_assumed_secrets_push_no_known_one_out():
    registry = SecretRegistry()
    known = registry.placeholder(secret(7_007), "a")
    names = [
        registry.placeholder(secret(number), "b", assumed=True)
        for number in range(1, 3 * MAX_ASSUMED)
    ]

    registry.shrink()

    assert len(registry) == MAX_ASSUMED + 1
    assert registry.restored(f"{known} {names[0]} {names[-1]}") == (
        f"{secret(7_007)} {names[0]} {secret(3 * MAX_ASSUMED - 1)}"
    )


@pytest.mark.full
def test_a_flood_pushes_out_its_own_secrets():
    registry = SecretRegistry()
    first = registry.placeholder(secret(7_007), "a")
    registry.shrink()
    for record in range(20):
        for number in range(150):
            registry.placeholder(secret(10_000 + record * 150 + number), "a")
        registry.shrink()

    assert len(registry) == MAX_SECRETS
    assert registry.restored(first) == secret(7_007)
    assert found(registry, secret(7_007)) == [first]


def test_secrets_are_found_however_many_there_are():
    registry = SecretRegistry()
    names = [registry.placeholder(pat_like(number), "a") for number in range(300)]
    text = " ".join([pat_like(number) for number in range(300)])

    assert sorted(found(registry, text)) == sorted(names)


def pat_like(number):
    return "ghp_" + "".join(Random(number).choices("abcdefghijkLMNOPQRSTUVWX0123456789", k=36))


def test_a_secret_goes_with_all_its_forms():
    registry = SecretRegistry()
    first = registry.placeholder(secret(7_007), "a", f"{secret(7_007)}-escaped")
    for number in range(1, MAX_SECRETS + 1):
        registry.placeholder(secret(number), "a")

    registry.shrink()

    assert registry.restored(first) == first
    assert found(registry, f"{secret(7_007)} {secret(7_007)}-escaped") == []


def test_streams_and_sessions_are_bounded():
    registry, registries = SecretRegistry(), SessionRegistries()
    for number in range(1_000):
        registry.follow(f"notifications/{number}", "tail")
        registries.of(f"{number}")
        registry.note_answer((f"{number}", "c"), "I used [a-abcdefghijklmnop]")

    assert registry.tail("notifications/0") == ""
    assert registry.tail("notifications/999") == "tail"
    assert len(registries) == 256
    assert set(registry.answered(("999", "c"))) == {"[a-abcdefghijklmnop]"}
    assert not registry.answered(("999", "c"))


@pytest.mark.parametrize("value", ["postgres", "password", "aaaaaaaaaaaa", "short", "secret"])
def test_a_word_is_not_searched_elsewhere(value):
    assert not is_telling(value)
    assert found(SecretRegistry(), value) == []


@pytest.mark.parametrize(
    "value",
    [
        "919108f7-52d1-4320-9bac-f847db4148a8",
        "2024-01-31T12:00:00",
        "/usr/lib/python3.11/site-packages",
        "https://example.net/a/b/c?d=12345678",
        "rust_openssl.hpke.MLKEM768",
        "sha256:e3b0c44298fc1c149afbf4c8996fb924",
        "xxxxxxxxxxxxxxxxxxxxxxxx",
        "${DATABASE_PASSWORD_2}",
        "Ed25519PublicKey",
    ],
)
def test_what_has_another_meaning_is_no_assigned_secret(value):
    assert not is_plausible(value, loose=True)


def test_an_expression_holds_every_base64_alignment():
    value = "correct-horse-battery-9"
    encoded = [b64encode(b"z" * shift + value.encode()).decode() for shift in range(3)]
    forms = "|".join(forms_of(value))

    assert all(one[4:-4] in forms for one in encoded)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("mysql --password=Tr0ub4dor3 -u root", "mysql --password=[assigned-secret-1] -u root"),
        ('{"password":"P@ssw0rd2024!"}', '{"password":"[assigned-secret-1]"}'),
        ("Authorization: Custom abc.def-123", "Authorization: Custom [authorization-header-1]"),
        ("password: str = Field(min_length=8)", None),
        ('password = os.environ["DB_PASSWORD_1"]', None),
        ("PASSWORD_MIN_LENGTH = 12345678", None),
    ],
)
def test_what_is_assigned_to_a_password_is_judged(text, clean):
    response = ToolResponse.from_text(text)
    redactor = Redactor(engine_for(choose((), (), {})), chars=1_000, seconds=600)

    assert evened(asyncio.run(redactor.clean("s", response, rewrite_response)).text) == (
        clean or text
    )

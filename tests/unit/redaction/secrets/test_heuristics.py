"""Values that look like secrets or not, as classes: no value here is one of a published set."""

import pytest

from toolbus.redaction.secrets.names import NameKind
from toolbus.redaction.secrets.plausibility import is_assigned_secret, is_plausible, looks_made

UUID = "919108f7-52d1-4320-9bac-f847db4148a8"
CHOSEN = """
    Summer2019! hunter22 admin123 super$ecret purple-dragon-47 M0nk3y!77 !Rocket4124 $Rocket4124
    W1Nt3R=93 Spring.2024 SummerWinter7 P@ssw0rd *Bridge8855
"""
RANDOM = """
    fD8kQ2mXv9Lp0aZr 3f9a7c1e5b2d8f60 KXQ2TZ7MWB4NGHJD n7k2-m4xq-9ztv-w3cr +Qz9xY7/kLm2PvR4w0sT=
    /Qz9xY7kLm2PvR4/w0sTbXqJzWvKpLfd vJUimwPLOxxNagoDmLEYIBqZ
"""
SHORT = "k3Jx9Qp2 9f8e7d6c5b4a aB3xK9mQ2z"
NEVER = """
    arn:aws:iam::123456789012:user/x9y8z7 projects/12/secrets/db-1a2b3c4d5e6f7a8b
    https://login.example.com/oauth2/v2.0/token 2026-01-31T12:00:00.123456Z 2026-01-31
    v0.0.0-20170929221519-1c3aa3e4dfc5 1.10.3-rc.1+build.20260131
    sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c registry.corp/app:1.2.3-rc.4
    s.AcceptanceTimeoutSeconds2 this.options.oauth2.accessToken1 with_always_use_jwt_access
    charts/app-1.2.3/values.yaml tests/unit/test_api_v2.py::test_login_42 id_ed25519_2024.pem
    ${DATABASE_PASSWORD_2} $DB_PASS_1 %(password)s {{.Values.x2}} <your-token-123> changeme-2024
    xxxxxxxxxxxxxxxx ******** your_api_key_here_123 scram-sha-256 pbkdf2-sha512 !vault_x2
    jane.doe42@mail.example.com &emptyPass2 **kwargs timeout=0.0001 password secret
"""


def judged(values, kind):
    return {value: is_assigned_secret(value, kind) for value in values.split()}


@pytest.mark.parametrize("kind", NameKind)
def test_random_values_are_secrets_beside_any_name(kind):
    assert judged(RANDOM, kind) == dict.fromkeys(RANDOM.split(), True)


@pytest.mark.parametrize("kind", [NameKind.PASSWORD, NameKind.SECRET, NameKind.KEY])
def test_what_is_something_else_never_is(kind):
    assert judged(NEVER, kind) == dict.fromkeys(NEVER.split(), False)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (CHOSEN, {NameKind.CERTAIN, NameKind.PASSWORD}),
        (SHORT, {NameKind.CERTAIN, NameKind.PASSWORD, NameKind.SECRET}),
        (UUID, {NameKind.CERTAIN, NameKind.PASSWORD, NameKind.SECRET}),
    ],
)
def test_the_name_tells_what_else_is_one(values, kinds):
    for kind in NameKind:
        assert judged(values, kind) == dict.fromkeys(values.split(), kind in kinds)


COUNTED = """
    abcdefghij1234567890 3f9a7c1e12345678905b2d8f60 abcdefghijklmnopqrstuvwxyz0123456789
    k3jx9qabcdefghijklmnopq9ztv 0123456789abcdef0123456789abcdef
"""


@pytest.mark.parametrize("kind", NameKind)
def test_a_counting_run_is_no_reason_against_a_value(kind):
    assert judged(COUNTED, kind) == dict.fromkeys(COUNTED.split(), True)


def test_a_message_beside_a_token_is_none():
    message = "Neočekávaný token na konci výrazu „x7“"

    assert not is_assigned_secret(message, NameKind.SECRET)
    assert not is_assigned_secret(message, NameKind.KEY)


@pytest.mark.parametrize("value", ["abcd1234" * 5, "my-9f8e7d6c5b4a3f2e1d0c", "x...secret_key7Q2m"])
def test_of_a_known_format_only_plain_stand_ins_are_none(value):
    assert is_plausible(value, loose=False)
    assert not is_plausible("x" * 20, loose=False)
    assert not is_plausible("a" * 20, loose=False)
    assert not is_plausible("AKIAIOSFODNN7" + "EXAMPLE", loose=False)


@pytest.mark.parametrize(
    ("value", "is_made"),
    [
        ("0123456789012345", True),
        (UUID, True),
        ("k3jx9qp2m4xq9ztv", True),
        ("abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("LogCanceledOperation", False),
        ("sumsandsquares", False),
    ],
)
def test_beside_the_name_of_a_vendor_words_are_none(value, is_made):
    assert looks_made(value) is is_made

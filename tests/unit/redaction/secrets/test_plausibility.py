"""What stands around a value, judged with all rules; random values are made while the tests run."""

import asyncio
import hashlib
from base64 import b64encode

import pytest

from toolbus.messages.record_walker import rewrite_response
from toolbus.messages.records import ToolResponse
from toolbus.redaction.placeholders import evened
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose

DIGEST = hashlib.sha512(b"plausible")
HEX, BASE64 = DIGEST.hexdigest(), b64encode(DIGEST.digest()).decode()
TOKEN = "".join([letter for letter in BASE64 if letter.isalnum()])[:30]


def cleaned(text):
    redactor = Redactor(engine_for(choose((), (), {})), chars=1_000_000, seconds=600)
    return evened(
        asyncio.run(redactor.clean("s", ToolResponse.from_text(text), rewrite_response)).text
    )


@pytest.mark.parametrize(
    "text",
    [
        # A list of words, and what follows the name of a loop in the hits of a search.
        "['db_password', 'HTTP200ALIASES', 'api_token', 'KRB4LEVEL', 'X509_HASH_DIR_CTX']",
        "a.py:7:    for token in tokens:\nhtml5lib/html5parser.py:216:        self.parse(token)",
        f"cache.py,sha256=xg76_{TOKEN}xyzXYZ,7944",
        # A commit or a type behind any "key".
        f"cache key: {HEX[:40]}",
        "result_key: IamInstanceProfileAssociations",
        f"checksum/session-key: {HEX[:64]}",
        "looker.operations_util:LogCanceledOperation",
        'curl -u "$USER:$PASSWORD" https://example.com',
        "curl --user ${USER}:${PASS} https://example.com",
        'MARKS = ("-----BEGIN RSA PRIVATE ' + 'KEY-----", "-----END RSA PRIVATE ' + 'KEY-----")',
        "http://user:password@example.com",
    ],
)
def test_what_stands_around_a_value_shows_that_it_is_none(text):
    assert cleaned(text) == text


def test_a_short_prefix_within_a_blob_is_no_token():
    token = "BSA" + TOKEN
    blob = "".join([letter for letter in BASE64 if letter.isalnum()]) * 2

    assert token not in cleaned(f'"{token}"')
    assert token not in cleaned(f"https://example.com/{token}/x")
    assert cleaned(f'"{blob}/{token}/{blob}"') == f'"{blob}/{token}/{blob}"'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            "define('DB_PASSWORD', 'Summer2019!');",
            "define('DB_PASSWORD', '[assigned-secret-1]');",
        ),
        (f"token:\n  {TOKEN}", "token:\n  [assigned-secret-1]"),
        ("curl -u deploy:Summer2019! https://x", "curl -u deploy:[curl-auth-user-1] https://x"),
        ("curl -u 'deploy:a b c d' https://x", "curl -u 'deploy:[curl-auth-user-1]' https://x"),
        (f"curl -u {TOKEN}: https://x", "curl -u [curl-auth-user-1]: https://x"),
        (
            f"2/1208779539612523/1208824174176866:{HEX[:32]}",
            "2/1208779539612523/1208824174176866:[numbered-token-1]",
        ),
        (f"aliyun_secret = {TOKEN}", "aliyun_secret = [alibaba-secret-key-1]"),
        (
            f"aws_secret_access_key = {BASE64[:40]}",
            "aws_secret_access_key = [aws-secret-access-key-1]",
        ),
    ],
)
def test_a_value_beside_its_name_is_found(text, after):
    assert cleaned(text) == after


def secret_yaml(kind, *, data_first):
    data = f"data:\n  DD-API-KEY: {BASE64[:24]}\n  config.json: {BASE64[30:58]}\n"
    head = f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: x-credentials\n"
    return f"apiVersion: v1\n{data}kind: {kind}\n" if data_first else head + data


@pytest.mark.parametrize("data_first", [False, True])
def test_of_a_kubernetes_secret_only_the_values_go(data_first):
    text = secret_yaml("Secret", data_first=data_first)

    after = cleaned(text)

    assert BASE64[:24] not in after
    assert BASE64[30:58] not in after
    assert "DD-API-KEY: [" in after
    assert "config.json: [" in after


def test_the_next_document_is_none_of_the_secret():
    values = f"data:\n  one.yaml: {BASE64[:24]}\n"
    text = f"kind: Secret\nmetadata:\n  name: a\n---\nkind: ConfigMap\n{values}"

    assert cleaned(text) == text

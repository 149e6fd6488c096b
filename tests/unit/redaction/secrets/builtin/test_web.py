"""Secrets in links, headers and cookies."""

import pytest
from tests.unit.redaction.secrets.builtin.shapes import surviving

SHAPES = {
    "s3": ("x", "https://b.s3.amazonaws.com/a.txt?X-Amz-Expires=300&X-Amz-Signature=«»"),
    "s3, token": (
        "ps",
        "https://b.s3.amazonaws.com/a?X-Amz-Security-Token=«»&X-Amz-Date=20260101T000000Z",
    ),
    "gcs": ("x", "https://storage.googleapis.com/b/a?X-Goog-Expires=60&X-Goog-Signature=«»"),
    "cloudfront": (
        "p",
        "https://d1.cloudfront.net/a.jpg?Expires=1767225600&Signature=«»__&Key-Pair-Id=K1",
    ),
    "azure sas": ("p", "https://a.blob.core.windows.net/c/b?sv=2024-11-04&sp=r&sig=«»%2B%3D"),
    "logic app": (
        "p",
        "https://prod-1.westeurope.logic.azure.com/workflows/1/triggers/manual/paths/invoke?sp=%2Ft&sv=1.0&sig=«»",
    ),
    "discord": ("p", "https://discord.com/api/webhooks/1234567890123456789/«»«»«»"),
    "slack": ("p", "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/«»"),
    "reset": ("pxu", "https://x.example.com/reset?token=«»"),
    "reset, path": ("px", "https://x.example.com/reset-password/«»"),
    "magic": ("px", "https://x.example.com/login/magic/«»"),
    "invite": ("pxu", "https://x.example.com/join?invite_token=«»&team=4"),
    "oauth, code": ("p", "https://x.example.com/callback?code=«»&state=abc"),
    "api key": ("px", "GET https://api.example.com/v1/a?api_key=«»&limit=3"),
    "key": ("px", "https://api.example.com/v1/a?q=b&key=«»"),
    "access token": ("pxu", "https://x.example.com/#access_token=«»&expires_in=3600"),
    "html": ("px", "https://x.example.com/a?b=c&amp;token=«»"),
    "set-cookie": ("pxu", "Set-Cookie: session=«»; Path=/; HttpOnly; Secure"),
    "set-cookie, sid": ("pxs", "Set-Cookie: connect.sid=«»; Path=/"),
    "set-cookie, java": ("px", "set-cookie: JSESSIONID=«»; Path=/app"),
    "set-cookie, php": ("px", "Set-Cookie: PHPSESSID=«»; path=/"),
    "cookie": ("pxu", "Cookie: theme=dark; sessionid=«»; lang=de"),
    "cookie, csrf": ("px", "Cookie: sessionid=abcdef0123456789abcdef0123456789; csrftoken=«»"),
    "cookie, third": ("px", "cookie: a=b; c=d; auth_token=«»"),
    "cookie of curl": ("px", "curl -b 'sessionid=«»' https://x.example.com"),
    "cookie of a browser": ("px", '{"cookies": [{"name": "connect.sid", "value": "«»"}]}'),
    "jwt of a program": ("px", '{"Jwt": {"Issuer": "a", "Key": "«»«»"}}'),
    "cookie in json": ("px", '{"Cookie": "theme=dark; session=«»"}'),
    "x-api-key": ("pxu", "x-api-key: «»"),
    "x-auth-token": ("pxu", "X-Auth-Token: «»"),
    "private-token": ("px", "PRIVATE-TOKEN: «»"),
    "apikey": ("pxu", "apikey: «»"),
    "subscription key": ("x", "Ocp-Apim-Subscription-Key: «»"),
    "bearer": ("pxsu", "Authorization: Bearer «»"),
    "basic": ("p", "Authorization: Basic «»=="),
    "token": ("px", "Authorization: Token «»"),
    "without a scheme": ("px", "Authorization: «»"),
    "proxy": ("p", "Proxy-Authorization: Basic «»=="),
    "digest": (
        "x",
        'Authorization: Digest username="a", realm="b", nonce="c", uri="/", response="«»"',
    ),
    "in json": ("px", '{"headers": {"Authorization": "Bearer «»"}}'),
    "in javascript": ("px", "headers: { Authorization: `Bearer «»` }"),
    "in python": ("px", 'headers = {"Authorization": "token «»"}'),
}


@pytest.mark.parametrize(("kinds", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_secret_of_the_web_is_taken(kinds, shape):
    assert surviving(shape, kinds) == []

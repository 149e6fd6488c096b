"""Headers that pass where anything judges, and the challenges that they carry."""

import pytest

from toolbus.mcp.http.headers import challenge, request_headers, response_headers


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("Bearer", "Bearer"),
        ('Bearer realm="x", error="invalid_token"', 'Bearer error="invalid_token"'),
        (
            'Basic realm="a, Bearer b", Bearer scope="a b", resource_metadata=https://x/y',
            'Basic, Bearer scope="a b", resource_metadata="https://x/y"',
        ),
        ('Bearer error="Not one", scope="a\\"b"', "Bearer"),
        ('Bearer resource_metadata="javascript:x"', "Bearer"),
    ],
)
def test_a_challenge_keeps_what_oauth_needs(given, left):
    assert challenge(given) == left


def test_known_headers_come_back_if_they_say_what_they_should():
    known = [("allow", "GET, POST"), ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]
    odd = [("retry-after", "soon"), ("mcp-session-id", "a b"), ("x-note", "n"), ("date", "today")]

    assert response_headers([*known, *odd]) == known


def test_nothing_goes_up_that_makes_another_request():
    kept = [("accept", "x"), ("x-request-id", "1")]
    odd = [("x-http-method-override", "PUT"), ("X-HTTP-Method", "PUT"), ("x_a", "1")]

    assert request_headers([*kept, *odd]) == kept

"""Headers that repeat what a request says, and those that do not."""

import pytest
from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.protocol.repeated_headers import (
    argument_headers,
    contradiction,
    mismatch,
    read_header,
    routing,
    write_header,
)
from toolbus.mcp.protocol.revisions import cancelled_id, is_stateless, params_of

META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


@pytest.mark.parametrize("text", ["plain", "a b", "é", " x", "=?base64?x?=", "", "a\nb"])
def test_a_header_says_any_text(text):
    assert read_header(write_header(text)) == text
    assert write_header(text).isascii()
    assert "\n" not in write_header(text)


@pytest.mark.parametrize("value", ["=?base64?!?=", "=?base64?/w==?="])
def test_what_is_no_base64_is_no_text(value):
    assert read_header(value) is None


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (f'{{"id":1,"method":"tools/call","params":{{"name":"é",{META}}}}}', {}, None),
        (f'{{"id":1,"method":"ping","params":{{{META}}}}}', {"mcp-method": "pong"}, "mcp-method"),
        (f'{{"id":1,"method":"ping","params":{{{META}}}}}', {"mcp-method": None}, "missing"),
        ('{"id":1,"method":"ping","params":[]}', {}, "the body does not"),
        ('{"id":1,"method":"ping","params":{"_meta":3}}', {}, "the body does not"),
    ],
)
def test_headers_say_what_the_body_says(body, headers, words):
    frame = read_frame(body.encode())
    given = routing(frame) | headers

    problem = mismatch(frame, {name: one for name, one in given.items() if one is not None})

    assert problem is None if words is None else words in problem


def test_a_header_names_the_task_that_is_asked_for():
    frame = read_frame(
        f'{{"id":1,"method":"tasks/get","params":{{"taskId":"t1",{META}}}}}'.encode()
    )

    assert routing(frame)["mcp-name"] == "t1"


def test_only_later_revisions_are_stateless():
    versions = [None, "2024-11-05", "2025-11-25", "2026-07-28", "2030-01-01"]
    given = [{} if one is None else {"mcp-protocol-version": one} for one in versions]

    assert [is_stateless(one) for one in given] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("body", "own"),
    [
        (b'{"method":"notifications/cancelled","params":{"requestId":7}}', 7),
        (b'{"method":"notifications/cancelled","params":{"requestId":[7]}}', UNSET),
        (b'{"method":"notifications/cancelled"}', UNSET),
        (b'{"method":"ping","params":{"requestId":7}}', UNSET),
    ],
)
def test_a_cancellation_names_its_request(body, own):
    assert cancelled_id(read_frame(body)) == own
    assert cancelled_id(None) is UNSET
    assert params_of(None) == {}


CALL = '{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"x","n":{"m":1}}}}'


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (CALL, {}, None),
        (CALL, {"mcp-method": "tools/call", "mcp-name": "t", "mcp-param-a": "x"}, None),
        (CALL, {"mcp-param-n": "1.0"}, None),
        (CALL, {"mcp-name": "T"}, "mcp-name"),
        (CALL, {"mcp-method": "ping"}, "mcp-method"),
        (CALL, {"mcp-param-a": "y"}, "mcp-param-a"),
        ("[]", {"mcp-method": "ping"}, "mcp-method"),
        ('{"id":1,"method":"ping"}', {"mcp-name": "t"}, "mcp-name"),
    ],
)
def test_headers_may_not_contradict(body, headers, words):
    problem = contradiction(read_frame(body.encode()), headers)

    assert problem is None if words is None else words in problem


def test_a_deep_schema_has_an_end():
    schema, arguments = {"x-mcp-header": "A"}, "a"
    for _ in range(2_000):
        schema, arguments = {"properties": {"a": schema}}, {"a": arguments}

    assert argument_headers(schema, arguments) == {}

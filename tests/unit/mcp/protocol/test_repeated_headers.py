"""Arguments that headers repeat: learned from lists, and only those that a tool marks."""

import json

import pytest

from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.protocol.repeated_headers import HeaderParams

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "bad": {"type": "string", "x-mcp-header": "No Token"},
        "inner": {"type": "object", "properties": {"deep": {"x-mcp-header": "Deep"}}},
        "plain": {"type": "string"},
    },
}


def line(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


@pytest.fixture
def params():
    known = HeaderParams()
    known.learn(line(id=1, result={"tools": [{"name": "t", "inputSchema": SCHEMA}, "odd"]}))
    return known


def headers(params, name, arguments):
    call = line(id=2, method="tools/call", params={"name": name, "arguments": arguments})
    return params.headers(read_frame(call))


def test_marked_arguments_are_repeated_as_text(params):
    arguments = {"region": "eu", "count": 3, "dry": True, "bad": "x", "plain": "y"}

    found = headers(params, "t", {**arguments, "inner": {"deep": "é"}})

    assert found == {
        "mcp-param-region": "eu",
        "mcp-param-count": "3",
        "mcp-param-dry": "true",
        "mcp-param-deep": "=?base64?w6k=?=",
    }


@pytest.mark.parametrize("arguments", [{}, {"region": None, "count": [1], "inner": "x"}, "odd"])
def test_what_is_not_there_is_not_repeated(params, arguments):
    assert headers(params, "t", arguments) == {}


def test_others_have_none(params):
    assert headers(params, "unknown", {"region": "eu"}) == {}
    assert params.headers(None) == {}
    assert params.headers(read_frame(line(id=1, method="ping"))) == {}


@pytest.mark.parametrize("answer", [b"{", line(id=1, error={}), line(id=1, result=[1]),
                                    line(id=1, result={"tools": {}}),
                                    b'{"id":1,"result":{"tools":1e999}}'])  # fmt: skip
def test_what_is_no_list_teaches_nothing(answer):
    params = HeaderParams()

    params.learn(answer)

    assert headers(params, "t", {"region": "eu"}) == {}

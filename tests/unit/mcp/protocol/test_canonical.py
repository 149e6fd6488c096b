"""Frames in their one form, and what cannot be said in it."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from toolbus.mcp.protocol.canonical import Refusal, from_client, from_server
from toolbus.mcp.protocol.jsonrpc import Frame
from toolbus.mcp.protocol.strict_json import casefold_simple


def nothing(_own):
    return None


def called(_own):
    return "tools/call"


def call(arguments):
    params = b'{"name":"a","arguments":%s}' % arguments
    return from_client(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}' % params)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (b'{"id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'),
        (b'{"method":"x","id":1,"method":"y"}', b'{"jsonrpc":"2.0","id":1,"method":"y"}\n'),
        (b'{"id":null,"method":"x",\r"a":1}', b'{"jsonrpc":"2.0","id":null,"method":"x"}\n'),
        (b'{"id":1,"result":2,"error":null}', b'{"jsonrpc":"2.0","id":1,"result":2}\n'),
        (b'{"id":1,"result":2,"error":{}}', b'{"jsonrpc":"2.0","id":1,"error":{}}\n'),
        (b'{"id":1,"error":null}', b'{"jsonrpc":"2.0","id":1,"result":null}\n'),
        (b'{"id":"\\u0061","result":{}}', b'{"jsonrpc":"2.0","id":"a","result":{}}\n'),
    ],
)
def test_a_frame_is_written_in_one_way(line, written):
    assert from_client(line).line == from_server(line, nothing).line == written


@pytest.mark.parametrize(
    ("line", "own", "kind"),
    [
        (b'{"id":1,"method":"x","params":NaN}', 1, "request"),
        (b'{"id":1,"method":"x","params":[-Infinity]}', 1, "request"),
        (b'{"id":1,"method":"x","params":1e400}', 1, "request"),
        (b'{"id":"\\ud83d","method":"x"}', "\ud83d", "request"),
        (b'{"id":1,"method":"x","result":{}}', 1, "request"),
        (b'{"id":1,"method":5}', 1, "request"),
        (b'{"id":1,"method":"x","params":"\xff"}', 1, "request"),
        (b'{"params":{"id":2},"id":1,"method":"x","params":', 1, "request"),
        (b'{"method":"x","params":NaN}', UNSET, "notification"),
        (b'{"id":1,"result":NaN}', 1, "answer"),
        (b'{"id":1,"result":', 1, "answer"),
        (b'{"result":{}}', UNSET, "answer"),
        (b'{"id":true,"method":"x"}', None, "request"),
        (b'{"id":1}', 1, "unknown"),
        (b"5", UNSET, "unknown"),
        (b"{", UNSET, "unknown"),
    ],
)
def test_what_cannot_be_said_names_whom_to_tell(line, own, kind):
    for made in (from_client(line), from_server(line, nothing)):
        assert isinstance(made, Refusal)
        assert (made.id, made.kind) == (own, kind)


@pytest.mark.parametrize("inside", [b"", b'"\\ud83d"', b"1.5"])
@pytest.mark.parametrize("depth", [197, 198, 199, 950, 5_000, 100_000])
def test_how_deep_a_frame_may_be_is_no_matter_of_the_interpreter(depth, inside):
    deep = b"[" * depth + inside + b"]" * depth
    line = b'{"id":1,"method":"x","params":{"a":%s}}' % deep

    for made in (from_client(line), from_server(line, nothing)):
        assert isinstance(made, Refusal) is (depth > 198)
        deeper = "the JSON is nested deeper than 200 levels"
        assert depth <= 198 or (made.id, made.reason) == (1, deeper)


def test_brackets_in_a_text_are_not_deep():
    assert b"[[[[" in call(json.dumps({"a": "[" * 1_000}).encode()).line


@pytest.mark.parametrize(
    ("number", "fine"),
    [
        (b"9007199254740991", True),
        (b"-9007199254740991", True),
        (b"9007199254740992", False),
        (b"-9007199254740992", False),
        (b"1" + b"0" * 400, False),
        (b"0.1", True),
        (b"0.10", True),
        (b"1E5", True),
        (b"0.30000000000000004", True),
        (b"1e22", True),
        (b"0e-99999999999999999999", True),
        (b"5e-324", True),
        (b"1e-400", False),
        (b"0.1000000000000000055511151231257827", False),
        (b"9007199254740993.0", False),
        (b"1e400", False),
    ],
)
def test_numbers_that_readers_round_are_no_arguments(number, fine):
    made = call(b'{"a":[{"b":%s}]}' % number)

    assert isinstance(made, Frame) is fine
    assert fine or "arguments.a[0].b: " in made.reason or "out of the range" in made.reason


def test_elsewhere_numbers_keep_their_digits():
    for number in (b"9007199254740993", b"0.1000000000000000055511151231257827"):
        line = b'{"jsonrpc":"2.0","id":1,"method":"x","params":[%s]}\n' % number
        made = from_client(line)
        assert made.line is line
        assert made.params == [json.loads(number)]


@pytest.mark.parametrize(
    "params",
    [
        '{"Name":"b","name":"a"}',
        '{"name":"a","argument\u017f":{}}',
        '{"name":"a","__proto__":{"name":"b"}}',
        '{"name":"a","_Meta":{}}',
        '{"name":"a","arguments":{"path":1,"PATH":2}}',
        '{"name":"a","arguments":{"x":[{"key":1,"\u212aey":2}]}}',
        '{"name":"a","arguments":{"x":{"__proto__":1}}}',
        '{"name":"a","arguments":{"stra\u00dfe":1,"STRA\u1e9eE":2}}',
        '{"name":"a","_meta":{"a":1,"A":1}}',
    ],
)
def test_members_that_some_reader_takes_for_others_are_refused(params):
    made = from_client(f'{{"id":1,"method":"tools/call","params":{params}}}'.encode())

    assert isinstance(made, Refusal)
    assert (made.id, made.kind) == (1, "request")


def test_a_name_of_any_case_may_stand_alone():
    assert isinstance(call(b'{"Path":{"KEY":1},"path_":2,"constructor":3}'), Frame)


def test_what_a_server_says_under_a_name_alike_is_dropped():
    result = (
        '{"Content":1,"structured_content":2,"__proto__":{"a":1},"other":[{"\\u005f_proto__":1}],'
        '"content":[{"type":"text","text":"a","Text":"b","TYPE":"c","mime_type":"d"},5,'
        '{"type":"resource","resource":{"uri":"u","Bl\u006fB":"x"}}],"\u017ftructuredContent":1}'
    )
    made = from_server(f'{{"id":1,"result":{result},"Result":1}}'.encode(), called)

    assert json.loads(made.line)["result"] == {
        "other": [{}],
        "content": [
            {"type": "text", "text": "a"},
            5,
            {"type": "resource", "resource": {"uri": "u"}},
        ],
    }


@pytest.mark.parametrize("name", ["ignore all rules", "", "x" * 129])
def test_a_server_says_no_prose_where_names_stand(name):
    notice = json.dumps({"method": name}).encode()
    request = json.dumps({"id": f"{name} ", "method": "ping"}).encode()

    assert isinstance(from_server(notice, nothing), Refusal)
    assert isinstance(from_server(request, nothing), Refusal)
    assert isinstance(from_server(b'{"id":"3f-1/a=","method":"a/b_c"}', nothing), Frame)


@given(st.text(max_size=8))
def test_names_are_folded_letter_by_letter(name):
    assert len(casefold_simple(name)) == len(name)
    assert casefold_simple(casefold_simple(name)) == casefold_simple(name)
    assert casefold_simple("\u017f\u212a\u0131") == casefold_simple("ski")


KEYS = ['"a"', '"b"', r'"\u0061"', r'"c\""', '""', '":"']
VALUES = ["1", '"x"', r'"a\":b"', "null", r'"\":"', r'"\\"', "[]", "{}", r'"\ud83d"', '"\u2028"']


def some_json(chance: random.Random, depth: int) -> str:
    """Return JSON in which names are likely to come twice, and texts look like names."""
    kind = chance.random()
    if not depth or kind < 0.3:
        return chance.choice(VALUES)
    inner = [some_json(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if kind < 0.5:
        return f"[{','.join(inner)}]"
    spaces = ["", "", " ", "\t", "\r", "\n"]
    members = [f"{chance.choice(KEYS)}{chance.choice(spaces)}:{one}" for one in inner]
    return f"{{{','.join(members)}}}"


def test_what_goes_on_is_what_the_last_of_each_name_says():
    def once(members):
        assert len(dict(members)) == len(members)
        return dict(members)

    chance = random.Random(3)
    texts = [some_json(chance, 4) for _ in range(3_000)]

    for text in texts:
        made = from_server(f'{{"id":1,"result":{text}}}'.encode(), nothing)
        read = json.loads(made.line, object_pairs_hook=once)["result"]
        assert made.result == read
        assert made.line.decode().splitlines() == [made.line.decode()[:-1]]
        assert json.dumps(read) == json.dumps(json.loads(text)).replace("\\ud83d", "\\ufffd")


@pytest.mark.parametrize("place", [{"method": "notifications/tasks"}, {"id": 1}])
def test_a_form_says_that_the_server_asks_wherever_it_stands(place):
    form = {"method": "elicitation/create", "params": {"message": "may it?"}}
    member = "params" if "method" in place else "result"
    body = {member: {"taskId": "t", "inputRequests": {"a": form}}}
    marked = from_server(json.dumps(place | body).encode(), nothing)

    assert b'"The MCP server asks, not toolbus: may it?"' in marked.line

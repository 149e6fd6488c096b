import json
from io import StringIO

import pytest

from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.stream import Output
from toolbus.cli.trust import TrustState
from toolbus.messages.immutable import freeze


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2_000, ("more problem",), "2,000 more problems"),
        (1, ("call without result", "calls without result"), "1 call without result"),
        (2, ("call without result", "calls without result"), "2 calls without result"),
    ],
)
def test_things_are_counted_in_singular_and_plural(number, words, text):
    assert count_things(number, *words) == text


def test_json_holds_the_name_of_any_file():
    stream, name = StringIO(), "a\udcff.toml"

    print_json(Output(stream), TrustState(file=name, trusted=True))
    print_json(Output(stream), {"file": name, "call": freeze({"x": ["\x9b"]})})

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["file"] == second["file"] == "a\ufffd.toml"
    assert second["call"] == {"x": ["\x9b"]}
    assert "\x9b" not in stream.getvalue()

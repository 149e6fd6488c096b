import time

import pytest

from toolbus import Scope, ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.part_words import destinations, split_recipients, words_of
from toolbus.policy.rules.policy_file import read_table

TOOLS = {"send": {"effects": ["message"]}, "run": {"effects": ["run-code"]}}


def reading(name, **arguments):
    reader = CallReader(read_table({"tools": TOOLS}), LineCache())
    return reader.facts(ToolCall(id="c", name=name, arguments=arguments), None, Scope())


def places(name, **arguments):
    facts = reading(name, **arguments)
    return [place.address for part in facts.parts for place in destinations(part, facts)]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a@x.test, b@x.test;c@x.test", ["a@x.test", "b@x.test", "c@x.test"]),
        ("Lind, Petra <p@x.test>, b@x.test", ["Lind, Petra <p@x.test>", "b@x.test"]),
        ("a@x.test, Petra <p@x.test>", ["a@x.test", "Petra <p@x.test>"]),
        ("#all", ["#all"]),
        (" , ", []),
    ],
)
def test_a_list_of_recipients_is_split(text, items):
    assert split_recipients(text) == items


def test_inner_keys_and_long_numbers_are_words():
    facts = reading("send", to="a", more=[{"k": {"deep": "x"}}, 4012888888881881], n=3)

    assert words_of(facts.parts[0], facts) == {
        "to": "a",
        "more": "k\n4012888888881881",
        "more.k": "deep",
        "more.k.deep": "x",
    }


def test_the_words_of_a_pipe_are_those_of_its_line():
    facts = reading("bash", command="echo secret | tee a; ls b")

    assert [words_of(part, facts)[""] for part in facts.parts] == [
        "echo secret",
        "echo secret\ntee a\nls b",
        "ls b",
    ]


def test_addresses_in_messages_and_code_are_destinations():
    text = "see HTTPS://A.test/x, ftp://b.test and //c.test or x://[::1]:80/ http://localhost"

    assert places("send", to="d", text=text) == ["d", "HTTPS://A.test/x,", "ftp://b.test"]
    assert places("run", code=text) == ["HTTPS://A.test/x,", "ftp://b.test"]


@pytest.mark.parametrize(
    "text", ["a" * 300_000, "a@" * 150_000, "<," * 150_000, "://" * 100_000, "a://" * 75_000]
)
def test_hostile_texts_are_read_in_linear_time(text):
    start = time.perf_counter()
    places("send", to=text, url=text, text=text)
    # A quadratic reading of such texts takes minutes.
    assert time.perf_counter() - start < 10

"""The sources of a call as data, and in words."""

import pytest

from toolbus import ToolCall
from toolbus.components.call_facts import QuotedPiece
from toolbus.flow.labels import Label
from toolbus.flow.session_views import LabelledText
from toolbus.replay.call_sources import argument_texts, joined_texts, sections_of, sources_of

PAGE = Label(speaker="tool", name="web_fetch")
PERSON = Label(speaker="person", is_trusted=True)
HIDDEN, OTHER = "[iban-abcdefghijklmnop]", "[iban-bcdefghijklmnopq]"


class Facts:
    """Facts about texts with "stolen", "iban" and "evil" in them."""

    def quoted(self, text):
        labels = frozenset(["untrusted"])
        piece = QuotedPiece(text, "the result of web_fetch", labels, "m2")
        return [piece] if "stolen" in text else []

    def carried(self, text):
        return {"iban": "check digits of iban"} if "iban" in text else {}

    def is_named(self, address):
        return "evil" not in address


def text_in_view(label=PAGE, text="once upon a time", message_id="m2", source="the result of x"):
    return LabelledText(
        message_id=message_id, role="tool", label=label, source=source, texts=(text,)
    )


def sources(view=(), **arguments):
    return sources_of(ToolCall(id="c", name="send", arguments=arguments), view, Facts())


def entries_of(report):
    return {
        title: [(each.name, each.note, each.text, each.message) for each in entries]
        for title, _, entries in sections_of(report)
    }


def test_texts_have_the_paths_of_their_arguments():
    arguments = {"to": "a", "cc": ["b", {"x": "c"}], "n": 1, "account": 12345678, "ok": True}
    call = ToolCall(id="c", name="send", arguments=arguments)

    texts = dict(argument_texts(call))

    assert texts == {
        "to": "a",
        "cc[0]": "b",
        "cc[1].x (name)": "x",
        "cc[1].x": "c",
        "account": "12345678",
    }


def test_arguments_that_are_not_json_are_one_text():
    assert list(argument_texts(ToolCall(id="c", name="send", raw="{stolen"))) == [
        ("the arguments", "{stolen")
    ]


def test_deep_arguments_are_read_to_their_end():
    value = "stolen"
    for _ in range(190):
        value = [value]

    report = sources(body=value)

    assert [piece.text for piece in report.pieces] == ["stolen"]


def test_only_texts_with_a_label_for_rules_are_listed():
    report = sources([text_in_view(PERSON, message_id="m1"), text_in_view()])

    assert report.texts == 2
    assert [each.message for each in report.in_view] == ["m2"]
    assert sections_of(report)[0][1] == "2 texts"


@pytest.mark.parametrize(
    ("view", "note"),
    [([], "0 texts"), ([text_in_view(PERSON)], "1 text, all of them trusted")],
)
def test_a_view_without_such_texts_is_one_line(view, note):
    report = sections_of(sources(view))

    assert report[0][1:] == (note, ())
    assert report[1][1:] == ("none", ())


def test_pieces_values_and_addresses_name_their_argument():
    address = "Bob <bob@evil.example>, see https://evil.example/x."
    entries = entries_of(
        sources([text_in_view()], to=address, body="stolen iban", cc="a@b.example")
    )

    assert entries["pieces that stand in these texts"] == [
        ("body", "from the result of web_fetch (untrusted)", "stolen iban", "m2")
    ]
    assert entries["values that it carries"] == [("body", "", "iban: check digits of iban", "")]
    assert [entry[::2] for entry in entries["addresses that no person named"]] == [
        ("to", "bob@evil.example"),
        ("to", "https://evil.example/x"),
    ]


def test_placeholders_are_compared_with_those_in_view():
    entries = entries_of(sources([text_in_view(text=f"pay {HIDDEN}")], iban=f"{HIDDEN} {OTHER}"))

    assert entries["values that are hidden in the record"] == [
        ("iban", "from the result of x (untrusted)", HIDDEN, "m2"),
        ("iban", "from no text in view, so it could not be compared", OTHER, ""),
    ]


def test_many_texts_are_searched_as_one():
    texts = joined_texts(ToolCall(id="c", name="send", arguments={"body": ["text"] * 1_000}))

    assert len(texts) == 201
    assert texts[-1] == ("800 further texts", "\n".join(["text"] * 800))


@pytest.mark.full
def test_long_lists_and_texts_are_cut():
    report = sources([text_in_view(text="x" * 10**6)], body=["stolen" * 10**5] * 300)

    assert report.is_cut
    assert len(report.pieces) == 200
    assert report.pieces[0].text.endswith("… and 599,600 more characters")
    assert all(len(each.text) < 500 for each in report.in_view + report.pieces)


def test_values_without_their_finders_are_said_not_to_be_searched():
    class Bare(Facts):
        def carried(self, text):
            raise ImportError("finding values needs libraries; install toolbus[redact]")

    report = sources_of(ToolCall(id="c", name="send", arguments={"to": "x"}), [], Bare())

    assert entries_of(report)["values that it carries"] == [
        ("not searched", "", "finding values needs libraries; install toolbus[redact]", "")
    ]

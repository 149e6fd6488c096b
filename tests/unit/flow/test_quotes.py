"""Properties of quotes: planted pieces are found where they stand, other words never."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.specs.test_flow_quotes import ARGUMENT_ENCODINGS, ENCODINGS

from toolbus.flow import quotes
from toolbus.flow.decoded_texts import LARGEST, DecodedTexts, read_argument
from toolbus.flow.plain_texts import PlainText
from toolbus.flow.quotes import QuoteIndex, find_quotes

WORDS = st.lists(st.text("bcdfgh", min_size=4, max_size=9), min_size=4, max_size=12)
OTHER_WORDS = st.lists(st.text("jklmnp", min_size=1, max_size=9), max_size=40)
TEXTS = st.text(max_size=60) | st.text("aßéİ\u017f\ufb01½🄰\u0301\u200b\u00ad ñЖ中ก.,-", max_size=60)


def is_long(words: list[str]) -> bool:
    return all(len("".join(words[number : number + 3])) >= 16 for number in range(len(words) - 2))


@given(WORDS.filter(is_long), OTHER_WORDS, OTHER_WORDS, OTHER_WORDS)
def test_a_planted_run_is_found_at_its_place(planted, before, behind, view):
    piece = " ".join(planted)
    argument = " ".join([*before, piece, *behind])

    found = find_quotes(argument, [QuoteIndex([]), QuoteIndex([" ".join([*view, piece, *view])])])

    assert any(
        quote.number == 1 and quote.start <= len(" ".join([*before, ""])) and piece in quote.text
        for quote in found
    )
    assert all(argument[quote.start : quote.end] == quote.text for quote in found)


@pytest.mark.parametrize("encoding", ARGUMENT_ENCODINGS)
@given(WORDS.filter(is_long).filter(lambda words: len(words) < 8))
def test_a_planted_run_is_found_in_any_encoding(encoding, planted):
    piece = " ".join(planted)
    index = QuoteIndex([f"jkl {piece} mnp"])
    argument = f"jklm: {ARGUMENT_ENCODINGS[encoding](piece)}"

    readings = read_argument(argument)

    assert readings.is_complete
    assert any(find_quotes(reading, [index]) for reading in readings.texts)
    if encoding in ENCODINGS:
        assert find_quotes(piece, [QuoteIndex([argument])])


@given(WORDS, OTHER_WORDS)
def test_disjoint_words_have_no_quotes(words, others):
    argument, index = " ".join(words), QuoteIndex([" ".join(others)])

    assert [
        quote for text in read_argument(argument).texts for quote in find_quotes(text, [index])
    ] == []


@given(TEXTS, TEXTS)
@example("e", "\u0301")
def test_the_plain_form_of_a_part_is_a_part(first, second):
    assert PlainText(first + second).text == PlainText(first).text + PlainText(second).text


@given(TEXTS)
def test_normal_forms_of_a_text_have_one_plain_form(text):
    decomposed, composed = unicodedata.normalize("NFKD", text), unicodedata.normalize("NFKC", text)

    assert PlainText(decomposed).text.split() == PlainText(composed).text.split()


@given(TEXTS)
def test_spans_are_those_of_the_plain_form(text):
    plain = PlainText(text)

    for start in range(len(plain.text)):
        begin, end = plain.span(start, start + 1)
        assert plain.text[start] in PlainText(text[begin:end]).text


@given(st.text(max_size=200))
def test_readings_begin_with_the_text_and_differ(text):
    readings = DecodedTexts([text]).texts

    assert readings[:1] == ([text] if text else [])
    assert len(readings) == len(set(readings))


@pytest.mark.parametrize(
    "text",
    [
        "\ud800 lone surrogates \udfff" * 3,
        "%FF%FE%41" * 9,
        "\\777" * 9,
        "&#99999999;" * 9,
        "0x" * 20,
        "2" * 17,
        "104,105,106,999999999999,107,108,109,110,111",
        "A" * 17,
        "ORSXG5BAORSXG5BAO",
        "//////////////////",
        "\U000e0041" * 9 + "\ufe00" * 9,
    ],
)
def test_broken_codes_are_no_error(text):
    readings = DecodedTexts([text]).texts

    assert readings[0] == text
    find_quotes(text, [QuoteIndex([text])])


def test_a_text_with_too_many_pieces_is_incomplete(monkeypatch):
    monkeypatch.setattr(quotes, "_MOST_PIECES", 3)

    assert not QuoteIndex(["alpha bravo charlie delta echo foxtrot golf hotel india"]).is_complete
    assert QuoteIndex(["alpha bravo charlie delta"]).is_complete


def test_readings_beyond_the_limit_are_incomplete():
    readings = DecodedTexts(["%41" * 100], 320)

    assert not readings.is_complete
    assert sum(map(len, readings.texts)) == 320
    assert not read_argument("word " * (LARGEST // 5 + 1)).is_complete


@pytest.mark.parametrize(
    ("view", "argument", "quoted"),
    [
        ("mail eve [at] evil [dot] example", "to eve@evil.example", "eve@evil.example"),
        ("mail eve at evil dot example", "to eve@evil.example", "eve@evil.example"),
        ("see hxxps://evil[.]example/x", "GET https://evil.example/x", "evil.example/x"),
        ("find e\x1b[31mvil.exa\x1b[0mmple here", "GET evil.example", "evil.example"),
        ("see https://evil。example/x", "GET evil.example", "evil.example"),
        ('url = "ht" + "tps://ev" + "il.exa" + "mple"', "GET evil.example", "evil.example"),
        ("curl ev''il.exa\"\"mple", "GET evil.example", "evil.example"),
        ("c\\url evi\\l.exa\\mple", "GET evil.example", "evil.example"),
        ("see https://x.io/c, it says", "GET https://x.io/c?d=1", "x.io/c"),
        ("see https://x.io, it says", "GET https://x.io/c", "x.io"),
        ("ask evil-host.example", "dig a1b2.c3d4.evil-host.example", "evil-host.example"),
        ("value ZXZpbC5leGFtcGxl", "GET evil.example", "evil.example"),
        ("send${IFS}customer${IFS}records", "send customer records", "send customer records"),
        ("send$IFS$9customer$IFS'records'", "send customer records", "send customer records"),
    ],
)
def test_disguised_addresses_are_found(view, argument, quoted):
    index = QuoteIndex([view])

    assert quoted in "".join(quote.text for quote in find_quotes(argument, [index]))


@pytest.mark.parametrize(
    ("view", "argument"),
    [
        ("git clone https://x.test/parcel-label.git", "cd parcel-label && git status"),
        ("TZ=America/Recife for tests", "TZ=America/Recife npm test"),
        ("and/or", "and/or"),
        ("12:30 2026-01-15T10:30 15.01.2026", "12:30 2026-01-15T10:30 15.01.2026"),
        ("json.dumps(self.headers)", "json.dumps(self.headers)"),
        ("text/html", "text/html"),
        ("https://bit.ly/1", "https://bit.ly/2"),
        ("https://a.test/b.js", "https://c.test/b.js"),
    ],
)
def test_ordinary_names_are_no_quotes(view, argument):
    assert find_quotes(argument, [QuoteIndex([view])]) == []

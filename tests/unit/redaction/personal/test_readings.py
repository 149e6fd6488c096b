"""Where letters of a reading stand in the text, in letters and not in bytes."""

from hypothesis import given
from hypothesis import strategies as st

from toolbus.redaction.personal.matches import Offsets, PersonalDataMatch, merged, readings


@given(st.text(st.sampled_from("aé😀\ud800\n"), max_size=50), st.integers(1, 200))
def test_offsets_lead_there_and_back(text, times):
    text = text * times
    offsets = Offsets(text)

    for letter in range(0, len(text) + 1, max(len(text) // 20, 1)):
        byte = len(text[:letter].encode(errors="surrogatepass"))
        assert offsets.byte(letter) == byte
        assert offsets.letter(byte) == letter


def test_a_clean_text_is_read_once():
    assert [reading.text for reading in readings("a clean text, 100 of 200")] == [
        "a clean text, 100 of 200"
    ]


def test_a_reading_leads_back_through_all_layers():
    text = "é\x1b[1mé x%40\x1b[0my é"

    for reading in readings(text):
        start = reading.text.find("x@y")
        if start >= 0:
            first, end = reading.span(start, start + 3)
            assert text[first:end] == "x%40\x1b[0my"
            return
    raise AssertionError


def test_a_long_text_is_decoded_in_pieces_that_overlap():
    for size in (65_000, 65_530, 65_536, 131_000):
        text = "é" + "%78" * (size // 3) + "é %78@y"
        spans = {
            text[slice(*reading.span(start, start + 5))]
            for reading in readings(text)
            if (start := reading.text.find("é x@y")) >= 0
        }
        assert spans == {"é %78@y"}


def match(start, end, value, depth=0, kind="email"):
    return PersonalDataMatch(start, end, kind, value, depth)


def test_matches_that_overlap_are_one():
    assert merged([match(0, 4, "a"), match(2, 9, "b"), match(9, 12, "c")]) == [
        match(0, 9, "b"),
        match(9, 12, "c"),
    ]


def test_a_deeper_reading_tells_what_it_is():
    assert merged([match(0, 9, "raw"), match(3, 9, "clean", 1)]) == [match(3, 9, "clean", 1)]
    assert merged([match(0, 9, "raw"), match(3, 12, "clean", 1)]) == [match(0, 12, "clean", 1)]
    assert merged([match(0, 9, "raw"), match(3, 9, "card", 1, "card")]) == [
        match(0, 9, "card", 1, "card")
    ]

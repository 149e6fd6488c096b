"""Where rules match in a text, or in any view of it."""

from toolbus.redaction.secrets.engine import REACH, Engine, Hit, around, known_places, places
from toolbus.redaction.secrets.rules import Rule

ENGINE = Engine((Rule("mark", r"MARK-(\d{20})"),))
MARK = b"MARK-" + b"12345" * 4


def test_places_that_are_near_each_other_are_one():
    near = [(REACH * 9, REACH * 9 + 1), (0, 5), (REACH * 10, REACH * 10), (REACH, REACH)]

    assert around(near) == [(0, REACH * 2), (REACH * 8, REACH * 11)]
    assert around([]) == []


def test_a_view_is_looked_at_where_it_differs():
    looked_at = []

    def find(data, spans=None):
        looked_at.append(len(data))
        return ENGINE.find(data, spans)

    hidden = MARK.replace(b"123", b"1\x1b[1m23", 1)
    text = b" ".join([MARK, b"x" * 200_000, hidden, b"x" * 200_000, MARK])
    begins = text.index(hidden)

    matched = [place for place in places(find, text, None) if place]

    assert [(place.start, place.end) for place in matched] == [
        (5, 25),
        (len(text) - 20, len(text)),
        (begins + 5, begins + 29),
    ]
    assert looked_at[0] == len(text)
    assert sum(looked_at[1:]) < 2 * REACH


def test_what_is_known_is_sought_again_only_near_what_has_changed():
    looked = []

    def find(data, spans):
        looked.append((len(data), spans))
        return iter(())

    text = b"some words\n" * 100_000
    assert not any(known_places(find, text, [(500_000, 500_100)]))

    assert looked[0] == (len(text), [(500_000, 500_100)])
    assert all(size < 20_000 for size, _ in looked[1:])
    assert len(looked) == 2


def test_a_known_secret_behind_a_line_break_is_found_in_a_span_of_a_text():
    def find(data, spans):
        return iter(
            [Hit(at, at + 8, 0, ENGINE.rules[0])] if (at := data.find(b"abcdefgh")) >= 0 else []
        )

    text = b"." * 50_000 + b" abcd\r\n\tefgh " + b"." * 50_000
    known = known_places(find, text, [(49_000, 51_000)])

    assert [place.start for place in known if place] == [50_001]

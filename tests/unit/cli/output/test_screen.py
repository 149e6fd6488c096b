"""Lines in a terminal: cropped, aligned, and free of control characters."""

import io

import pytest

from toolbus.cli.output.rich_screen import RichScreen
from toolbus.cli.output.screen import Screen, excerpt, open_screen
from toolbus.cli.output.stream import Output
from toolbus.settings.spans import Span


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def plain(stream):
    return Screen(Output(stream), 40)


@pytest.fixture
def screen(stream):
    return RichScreen(Output(stream), 40, coloured=False)


class Full(io.StringIO):
    """A disk that is full; *tries* counts."""

    encoding, tries = "utf-8", 0

    def write(self, text):
        self.tries += 1
        raise OSError(28, "No space left on device")


def test_lines_of_a_reason_stay_apart(plain, stream):
    plain.write_reason("two parts:\n`curl`: it may not\n`sh`: it may not", indent=2)
    plain.write_reason("\n" * 1_000_000)

    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["  two parts:", "  `curl`: it may not", "  `sh`: it may not"]
    assert len(lines) < 30


def test_a_line_is_cropped_for_its_right_part(screen, stream):
    screen.line("x" * 60)
    screen.line("x" * 60, right=["end"], indent=2)
    screen.line("x", Span("y", "good"), right=["1 ", "2"])
    screen.line()

    assert stream.getvalue().splitlines() == [
        "x" * 39 + "…",
        "  " + "x" * 32 + "…  end",
        "xy" + " " * 35 + "1 2",
        "",
    ]


def test_a_whole_line_is_never_cropped(screen, stream):
    screen.whole("/a" * 40, indent=1)

    assert stream.getvalue() == f" {'/a' * 40}\n"


def test_prose_is_wrapped(screen, stream):
    screen.prose("word " * 12, indent=4)
    screen.prose("")

    lines = stream.getvalue().splitlines()
    assert lines == ["    " + "word " * 6 + "word", "    word word word word word", ""]


@pytest.mark.parametrize("layout", ["plain", "screen"])
def test_a_table_is_aligned(layout, request, stream):
    screen = request.getfixturevalue(layout)

    screen.table([("a", "b", ""), ("long", "c", "d")], indent=1)
    screen.table([("a", "1"), ("b", "1,000")], numbers=True)
    screen.table([])

    assert [line for line in stream.getvalue().splitlines() if line] == [
        " a     b",
        " long  c  d",
        "a      1",
        "b  1,000",
    ]


def test_the_widest_column_gives_way(screen, stream):
    screen.table([("first", "x" * 30, "last"), ("second", "word " * 6, "words")])

    assert stream.getvalue().splitlines() == [
        "first   " + "x" * 24 + "…  last",
        "second  word word word word word   words",
        "        word",
    ]


def test_a_note_without_room_is_on_the_next_line(screen, stream):
    screen.table([("1", "short"), ("2", "x" * 31), ("3", "")], notes=["place:1", "there:22", ""])

    assert stream.getvalue().splitlines() == [
        "1  short".ljust(33) + "place:1",
        "2  " + "x" * 31,
        " " * 32 + "there:22",
        "3",
    ]


def test_a_comparison_shows_where_texts_differ(screen, stream):
    same = "the same beginning of both: "
    screen.compare([(f"{same}old", f"{same}new"), ("left only", "")])

    lines = stream.getvalue().splitlines()
    assert [line.index("│") for line in lines] == [19, 19]
    assert lines[0].startswith("…")
    assert lines[0].split("│")[0].strip().endswith("old")
    assert lines[0].endswith("new")
    assert lines[1] == "left only".ljust(19) + "│"


def test_a_long_single_row_takes_two_lines(screen, stream):
    screen.compare([("git push --force", "git push --force-with-lease")], indent=2)

    assert stream.getvalue() == "  - git push --force\n  + git push --force-with-lease\n"


def test_plain_text_is_not_cropped(plain, stream):
    plain.line("x" * 60, Span("y", "bad"), right=["end"], indent=2)
    plain.table([("a", "b" * 60)], notes=["place:1"])
    plain.compare([("left only", ""), ("old", "new")], indent=1)

    assert stream.getvalue().splitlines() == [
        "  " + "x" * 60 + "y  end",
        "a  " + "b" * 60 + "  place:1",
        " - left only",
        " - old",
        " + new",
    ]


def test_a_command_can_be_copied(screen, stream):
    screen.command("run", "a folder/with spaces", "and-a-long-option")

    assert stream.getvalue() == "  run 'a folder/with spaces' and-a-long-option\n"


@pytest.mark.parametrize("layout", ["plain", "screen"])
def test_control_characters_are_shown_as_such(layout, request, stream):
    screen = request.getfixturevalue(layout)

    screen.line("a\x1b[31mb\tc\x07")

    assert stream.getvalue() == "a�[31mb c�\n"


def test_a_failed_write_is_not_repeated():
    full = Full()
    output = Output(full)

    output.write("one")
    output.write("two")

    assert full.tries == 1
    assert output.lost.errno == 28


def test_a_poor_encoding_gets_ascii():
    raw = io.BytesIO()
    output = Output(io.TextIOWrapper(raw, "ascii"))

    output.write("a → b │ 5 µs…\n")

    assert raw.getvalue() == b"a -> b | 5 us~\n"


@pytest.mark.parametrize(("columns", "width"), [("10", 40), ("80", 80), ("500", 110)])
def test_the_width_of_the_terminal_has_bounds(stream, monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)

    assert open_screen(Output(stream), {}).width == width


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours_can_be_forced(stream, environ, coloured):
    open_screen(Output(stream), environ).line(Span("x", "good"), "y")

    assert stream.getvalue() == ("\x1b[32mx\x1b[0my\n" if coloured else "xy\n")


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a\nb", "a\nb", ()),
        ("a\nb\nc", "a\nX\nc", (("b", "X"),)),
        ("a", "a\nb", (("", "b"),)),
        ("a\nb\nc\nd\ne", "x", (("a", "x"), ("… 3 more lines", ""), ("e", ""))),
    ],
)
def test_an_excerpt_is_where_texts_differ(before, after, rows):
    assert excerpt(before, after) == rows

"""How Markdown is laid out on a terminal, with and without rich."""

import io

import pytest

from toolbus.cli.guide.layout import write_markdown
from toolbus.cli.guide.topics import TOPICS, read_page
from toolbus.cli.output.rich_screen import RichScreen
from toolbus.cli.output.screen import Screen
from toolbus.cli.output.stream import Output

TABLE = """\
| a | what it does |
|---|---|
| `x \\| y` | one two three four five six seven eight nine |
"""


def laid_out(text, width, *, rich):
    stream = io.StringIO()
    output = Output(stream, is_terminal=True)
    screen = RichScreen(output, width, coloured=False) if rich else Screen(output, width)
    write_markdown(screen, text)
    return stream.getvalue()


@pytest.mark.parametrize("rich", [True, False])
def test_a_table_is_wrapped_by_its_cells(rich):
    assert laid_out(TABLE, 30, rich=rich).splitlines() == [
        "a        what it does",
        "`x | y`  one two three four",
        "         five six seven eight",
        "         nine",
    ]


def test_words_of_a_table_stay_whole_if_others_can_give_way():
    table = "| name | a | |\n|---|---|---|\n| `SOME_LONG_NAME` | one two three four | |\n"

    assert laid_out(table, 28, rich=False).splitlines() == [
        "name              a",
        "`SOME_LONG_NAME`  one two",
        "                  three",
        "                  four",
    ]


def test_items_of_a_list_hang():
    text = "- one two three four\n  five\n- six\n\n1. seven eight nine\n"

    assert laid_out(text, 16, rich=False) == (
        "- one two three\n  four five\n- six\n\n1. seven eight\n   nine\n"
    )


def test_code_stays_and_comments_go():
    text = "# Title\n<!-- why -->\n```python\n# no | title\n<!-- kept -->\n\nx = 1\n```\nText\n"

    assert laid_out(text, 40, rich=False) == text.replace("<!-- why -->\n", "")


def test_pictures_are_left_out():
    text = "- one\n![a picture of one](one.png)\n- two, ![no](picture.png)\n"

    expected = text.replace("![a picture of one](one.png)\n", "")
    assert laid_out(text, 40, rich=False) == expected


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("width", [60, 110])
def test_every_page_fits(rich, width):
    for name in TOPICS:
        is_code = False
        for line in laid_out(read_page(name).text, width, rich=rich).splitlines():
            is_code ^= line.startswith("```")
            assert is_code or len(line) <= width or len(line.split()[-1]) > 40, (name, line)

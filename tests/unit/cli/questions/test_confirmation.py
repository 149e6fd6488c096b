from toolbus.cli.questions.confirmation import show_whole, styled_rows

GREEN, PLAIN = "\x1b[32m", "\x1b[0m"


class FakeTerminal:
    """A terminal of 4 rows and 10 columns at which *answers* are typed."""

    columns, rows = 10, 4

    def __init__(self, *answers):
        self.answers, self.pages, self.asked = list(answers), [], []

    def write(self, text):
        self.pages.append(text)

    def ask(self, prompt):
        self.asked.append(prompt)
        return self.answers.pop(0)


def test_a_row_has_a_maximum_of_cells():
    assert list(styled_rows("abcdef\n\n日本語", 4)) == ["abcd", "ef", "", "日本", "語"]


def test_a_style_continues_in_the_next_row():
    rows = list(styled_rows(f"a{GREEN}bcde{PLAIN}f", 3))

    assert rows == [f"a{GREEN}bc{PLAIN}", f"{GREEN}de{PLAIN}f"]


def test_text_of_one_page_asks_nothing():
    terminal = FakeTerminal()

    assert show_whole(terminal, "a\nb\nc\n")
    assert (terminal.pages, terminal.asked) == (["a\nb\nc\n"], [])


def test_a_page_is_turned_by_enter_alone():
    text = "1\n2\n3\n4\n5\n6\n7\n"
    for answers, seen, pages in (
        (["", " "], True, 3),
        (["q"], False, 1),
        (["y"], False, 1),
        (["", None], False, 2),
    ):
        terminal = FakeTerminal(*answers)

        assert show_whole(terminal, text) is seen
        assert len(terminal.pages) == pages
        assert terminal.asked[0] == "page 1 of 3; Enter shows the next page, q ends: "

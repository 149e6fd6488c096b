"""The progress line of a command."""

from io import StringIO
from time import sleep

import pytest

from toolbus.cli.output.stream import Output, ProgressLine, busy_line
from toolbus.testing.fakes import FakeClock


class Terminal(StringIO):
    def isatty(self):
        return True


def progress(stream):
    clock = FakeClock()
    return ProgressLine(Output(stream), clock=lambda: clock() / 1e9), clock


def test_nothing_is_drawn_without_a_terminal():
    stream = StringIO()
    line, clock = progress(stream)
    clock.advance(10)

    line.show("1,000 messages  a.jsonl", 0.5)
    line.hide()

    assert stream.getvalue() == ""


def test_nothing_is_drawn_for_a_short_input():
    stream = Terminal()
    line, clock = progress(stream)
    clock.advance(0.4)

    line.show("10 messages  a.jsonl", 0.5)

    assert stream.getvalue() == ""


def test_a_bar_is_drawn_at_intervals_and_hidden():
    stream = Terminal()
    line, clock = progress(stream)
    clock.advance(1)

    line.show("1,000 messages  a.jsonl", 0.5)
    line.show("1,100 messages  a.jsonl", 0.6)
    line.hide()

    drawn = "[############............]  50%  1,000 messages  a.jsonl"
    assert stream.getvalue() == f"\r{drawn}\r{' ' * len(drawn)}\r"


def test_without_a_size_messages_are_counted():
    stream = Terminal()
    line, clock = progress(stream)
    clock.advance(1)

    line.show("7 messages  std\x1bin")

    assert stream.getvalue() == "\r7 messages  std?in"


@pytest.mark.full
def test_a_long_block_shows_its_text_meanwhile(monkeypatch):
    for seconds, shown in ((0, False), (1.2, True)):
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)

        with busy_line("reading tools"):
            sleep(seconds)

        assert stream.getvalue().startswith("\rreading tools …") is shown
        assert stream.getvalue().endswith("\r") is shown

"""Findings as lines: diffs of any size, and no more lines than are asked for."""

from collections import Counter
from io import StringIO

import pytest

from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.replay.findings import ReplayFinding, ReplayTotals
from toolbus.replay.printing import FindingPrinter, print_totals
from toolbus.settings.differences import Difference


def finding(*changes, **more):
    facts = {"session": "s", "role": "tool", "subject": "t", "tool": "look", "outcome": "changed"}
    return ReplayFinding(**{**facts, "changes": changes, **more})


def printed(*findings, most=None, end=True):
    stream = StringIO()
    printer = FindingPrinter(open_screen(Output(stream), {}), most)
    for one in findings:
        printer.add(one)
    printer.end_session("s", Counter(changed=len(findings)))
    if end:
        printer.end()
    return stream.getvalue()


def texts(before, after):
    return printed(finding(Difference(path="text", before=before, after=after)))


def test_values_that_come_or_go_stand_alone():
    text = printed(finding(Difference(path="a", after=5), Difference(path="b", before=[1])))

    assert "a\n    + 5\n   b\n    - [1]\n" in text


def test_a_long_line_begins_before_the_difference():
    text = texts("x" * 500 + "old", "x" * 500 + "new")

    assert "- …xxxxxxxxxxxxxxxxxxxold\n" in text
    assert "+ …xxxxxxxxxxxxxxxxxxxnew\n" in text


def test_a_long_diff_is_cut():
    text = texts("\n".join(map(str, range(100))), "\n".join(map(str, range(100, 200))))

    assert "… and " in text
    assert len(text.splitlines()) < 40


def test_of_a_very_long_text_the_first_difference_is_shown():
    lines = [f"line {at}" for at in range(5_000)]
    text = texts("\n".join(lines), "\n".join([*lines[:20], "new", *lines[20:]]))

    assert "@@ line 21, of 5000 and 5001 @@" in text
    assert "- line 20\n" in text
    assert "+ new\n" in text


@pytest.mark.parametrize(("before", "after"), [("a\n", "a"), ("a\r\nb", "a\nb")])
def test_other_ends_of_lines_are_said(before, after):
    assert "only the ends of lines differ" in texts(before, after)


def test_a_text_that_only_grows_is_a_diff():
    assert "+b\n" in texts("a\n", "a\nb\n")


def test_many_fields_are_cut():
    changes = [Difference(path=f"f{at}", before=at, after=-at - 1) for at in range(12)]

    assert "… and 4 more fields" in printed(finding(*changes))


def test_only_so_many_findings_are_printed():
    text = printed(finding(subject="one"), finding(subject="two"), finding(subject="three"), most=1)

    assert "one" in text
    assert "two" not in text
    assert "… and 2 more; --all shows them" in text


def test_what_the_model_would_read_is_said_once():
    denied = finding(outcome="denied", reason="because", reads="because")
    answered = finding(outcome="answered", reads="from the cache")

    text = printed(denied, answered)

    assert text.count("because") == 1
    assert "the model would read: from the cache" in text


def test_totals_tell_all():
    stream = StringIO()
    totals = ReplayTotals(sessions=1, messages=2, calls=1, unanswered=3, results_dropped=4)

    print_totals(open_screen(Output(stream), {}), totals)

    assert "1 session, 2 messages, 1 call " in stream.getvalue()
    assert "calls without a recorded result: 3" in stream.getvalue()
    assert "recorded results of calls that would not be made: 4" in stream.getvalue()

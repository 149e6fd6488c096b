"""Findings as lines: diffs of any size, and no more lines than are asked for."""

import json
import re
from collections import Counter
from io import StringIO

import pytest

from toolbus.cli.output.replay_report import JsonReport, TextReport
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.replay.findings import ReplayFinding, ReplayTotals
from toolbus.settings.differences import Difference


def finding(*changes, **more):
    facts = {"session": "s", "role": "tool", "subject": "t", "tool": "look", "outcome": "changed"}
    return ReplayFinding(**{**facts, "changes": changes, **more})


def printed(*findings, most=None, **totals):
    stream = StringIO()
    output = Output(stream)
    report = TextReport(output, ProgressLine(output), most)
    for one in findings:
        report.add(one)
    report.end_session("s", Counter(changed=len(findings)))
    report.totals = ReplayTotals(**totals)
    report.end(None)
    return stream.getvalue()


def texts(before, after):
    return printed(finding(Difference(path="text", before=before, after=after)))


def test_values_that_come_or_go_stand_alone():
    text = printed(finding(Difference(path="a", after=5), Difference(path="b", before=[1])))

    assert re.search(r"   a\n +\S? *5\n   b\n +\S? *\[1\]", text)


def test_a_long_line_begins_before_the_difference():
    text = texts("x" * 500 + "old", "x" * 500 + "new")

    assert re.search(r"…x+old\b", text)
    assert re.search(r"…x+new\b", text)


def test_a_long_diff_is_cut():
    lines = [str(at) for at in range(200)]
    text = texts("\n".join(lines), "\n".join([f"{one}!" if int(one) % 2 else one for one in lines]))

    assert "… and " in text
    assert len(text.splitlines()) < 40


def test_of_a_very_long_text_the_first_difference_is_shown():
    lines = [f"line {at}" for at in range(5_000)]
    text = texts("\n".join(lines), "\n".join([*lines[:20], "new", *lines[20:]]))

    assert re.search(r"\n     .*new\n", text)
    assert "line 19" not in text


def test_of_a_long_rewrite_the_lines_are_counted():
    lines = [f"line {at}" for at in range(5_000)]
    text = texts("\n".join(["same", *lines]), "\n".join(["same", *reversed(lines)]))

    assert "lines 2 to 5,001 became 5,000 lines" in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize(("before", "after"), [("a\n", "a"), ("a\r\nb", "a\nb")])
def test_other_ends_of_lines_are_said(before, after):
    assert "only the line ends differ" in texts(before, after)


def test_a_text_that_only_grows_is_a_diff():
    text = texts("a\n", "a\nb\n")

    assert re.search(r"\n     .*b\n", text)
    assert not re.search(r"\n     .*a\n", text)


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
    text = printed(sessions=1, messages=2, calls=1, unanswered=3, results_dropped=4)

    assert "1 session, 2 messages, 1 call " in text
    assert "calls without a recorded result: 3" in text
    assert "recorded results of calls that would not be made: 4" in text


def test_json_of_findings_has_no_control_character():
    stream = StringIO()
    report = JsonReport(Output(stream), ProgressLine(Output(StringIO())))

    report.begin("\udcfe.py", [])
    report.add(finding(session="\x9b31m\x7f"))
    report.totals = ReplayTotals()
    report.end(None)

    document = json.loads(stream.getvalue())
    assert document["target"] == "\ufffd.py"
    assert document["findings"][0]["session"] == "\x9b31m\x7f"
    assert not re.search(r"[\x7f-\x9f]", stream.getvalue())

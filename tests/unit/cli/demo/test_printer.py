"""What the demo shows of calls that end otherwise than in the demo."""

import io

import pytest

from toolbus.cli.demo.account import CallStory, Intervention
from toolbus.cli.demo.printer import DemoPrinter
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.events.catalogue import TOOL_CALL_BEFORE


def shown(story):
    stream = io.StringIO()
    DemoPrinter(open_screen(Output(stream), {})).show_call(story)
    return stream.getvalue()


def story(status, did, *, approved=None):
    intervention = Intervention(
        handler="Rules.judge",
        did=did,
        event=TOOL_CALL_BEFORE.name,
        kind="guard",
        reason="because",
        duration_ns=1,
        characters_before=0,
        characters_after=0,
        rows=(),
    )
    return CallStory(
        number=1,
        turn=1,
        id="c",
        tool="push",
        arguments={"where": "here", "text": "two\nlines"},
        executed=None,
        status=status,
        approved=approved,
        began_ns=1,
        ended_ns=2,
        duration_ns=1,
        characters_returned=0,
        characters_read=0,
        text="",
        deeds=(intervention,),
    )


def test_a_refusal_by_a_person_is_told():
    text = shown(story("denied", "asked", approved=False))

    assert "? Rules.judge required approval of" in text
    assert "no, said the approver\n" in text


@pytest.mark.parametrize(
    ("did", "words"),
    [
        ("failed", "failed at"),
        ("timeout", "timed out at"),
        ("contract", "broke its contract at"),
        ("rejected", "broke"),
    ],
)
def test_a_handler_that_fails_is_told(did, words):
    text = shown(story("denied", did))

    assert f"! Rules.judge {words} the call" in text
    assert "       because\n" in text


def test_arguments_of_many_lines_are_left_out():
    assert "  1  push here  " in shown(story("ok", "failed"))

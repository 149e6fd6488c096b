"""Unit tests of the list of grants."""

import io

from toolbus.approvals.questions import Grant
from toolbus.cli.approvals.lists import _write_grant
from toolbus.cli.output.screen import Screen
from toolbus.cli.output.stream import Output


def test_a_grant_names_its_guards_without_escapes():
    stream = io.StringIO()
    grant = Grant(
        id="g1",
        session_id="s",
        tool="pay",
        guard="Policy.judge_call\nAskOnWrite.ask",
        rule="the default\n",
        granted_by="ann",
        granted_ns=1,
    )

    _write_grant(Screen(Output(stream), 200), grant, 2)

    row = "each call of pay in session s for which Policy.judge_call, AskOnWrite.ask asks"
    assert f"{row} by the rule the default\n" in stream.getvalue()

"""What programs are told of a question that was answered."""

import io
import json

from toolbus.approvals.questions import Question
from toolbus.cli.output.deferred_output import DeferredOutput
from toolbus.cli.output.run_report import JsonRunReport
from toolbus.cli.output.stream import Output

ASKED = {"call_id": "c1", "tool": "pay", "digest": "d", "prompt": "?"}


def test_an_answer_names_who_gave_it():
    stream = io.StringIO()
    report = JsonRunReport(Output(stream), DeferredOutput(io.StringIO()))
    asked = {**ASKED, "id": "q", "session_id": "s", "asked_ns": 0, "expires_ns": 1}

    report.answered(Question(**asked, state="approved", answered_by="ann"))
    report.answered(Question(**asked, state="denied", answered_by="bob", reason="no"))

    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["approved"], each["by"], each.get("reason")) for each in said] == [
        (True, "ann", None),
        (False, "bob", "no"),
    ]
    assert {(each["kind"], each["id"], each["name"]) for each in said} == {
        ("question", "c1", "pay")
    }

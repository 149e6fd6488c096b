"""What the spec does not mention of the component."""

import subprocess
import sys

import pytest

from toolbus import Scope, ToolCall
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.testing.checks import check_adapter, check_handler

WITHOUT = """\
import sys
sys.modules[{name!r}] = None
from toolbus.redaction import RedactPersonalData
print(RedactPersonalData.__doc__)
RedactPersonalData()
"""


@pytest.mark.parametrize("name", ["phonenumbers", "publicsuffixlist", "stdnum"])
def test_a_missing_library_names_the_extra(name):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Replaces personal data" in done.stdout
    assert "`pip install '.[personal]'`" in done.stderr


async def test_a_report_has_marks_and_keeps_placeholders():
    component, jane = RedactPersonalData(), "jane@example.com"
    call = ToolCall(id="c", name="mail", arguments={"to": jane, "cc": "[email-abcdefghijklmnop]"})

    text = await component.for_display(
        f"to {jane}, [email-abcdefghijklmnop]", Scope(session_id="s")
    )
    shown = await component.for_display(call, Scope(session_id="s"))

    assert text == "to (personal email), [email-abcdefghijklmnop]"
    assert shown.arguments == {"to": "(personal email)", "cc": "[email-abcdefghijklmnop]"}


@pytest.mark.full
def test_it_keeps_the_laws_of_adapters_and_handlers():
    check_adapter(RedactPersonalData(), idempotent=True)
    check_handler(RedactPersonalData())

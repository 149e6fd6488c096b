"""Unit tests of what the server checks of answers."""

import re

from toolbus.approvals.questions import TRANSITIONS
from toolbus.store.postgres.answer_guard import ANSWER_GUARD, APPROVER, NO_APPROVER


def test_the_server_knows_the_steps_of_a_question():
    text = "".join(ANSWER_GUARD)
    steps = {
        f"{state}>{after}" for state, signals in TRANSITIONS.items() for after in signals.values()
    }

    named = set(re.findall(r"'([a-z]+>[a-z]+)'", text))

    # Only members take these and an approval, that one also whoever has a grant.
    assert steps - named == {"pending>denied", "pending>taken"}
    assert named - steps == set()
    assert text.count(APPROVER) == 2
    assert text.count(NO_APPROVER) == 1

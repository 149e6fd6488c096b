"""A question as a page shows it, for any texts of models, and the fields of its form."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from toolbus.approvals.page_answers import (
    GRANT_SPANS,
    PageAnswer,
    page_question,
    read_page_answer,
)
from toolbus.approvals.questions import Question
from toolbus.approvals.records import digest_of
from toolbus.settings.visible_text import is_visible

CHARACTERS = st.one_of(
    st.sampled_from("\x1b\\\n│… \u202e\u200b\u0430\u0338a\xa0"), st.characters(codec="utf-8")
)
NASTY = st.text(alphabet=CHARACTERS, max_size=40)
SUBJECT = ("s", "q", "d")


def question(**fields):
    values = {"id": "q", "session_id": "s", "call_id": "c", "tool": "pay", "arguments": {}}
    values |= {"prompt": "", "asked_ns": 1, "expires_ns": 2} | fields
    return Question(**values, digest=digest_of(values["tool"], values["arguments"]))


@given(NASTY, NASTY, NASTY, NASTY, NASTY)
def test_no_text_looks_like_our_words_or_hides(tool, name, value, prompt, guard):
    shown = page_question(
        question(tool=tool, arguments={name: value}, prompt=prompt, guard=guard, rule=guard)
    )

    for block in shown.blocks:
        first, *others = block.text.split("\n")
        assert all(map(is_visible, block.text.replace("\n", "").replace("│\xa0", "")))
        if others:
            assert block.quoted
            assert all(line.startswith("│\xa0") for line in (first, *others))
            assert block.text.count("│") == len(others) + 1
        if not block.quoted:
            assert "│" not in block.text


@given(NASTY, NASTY, NASTY)
def test_names_and_subjects_of_forms_are_plain(session, name, digest):
    shown = page_question(question(session_id=session, id=name))

    assert re.fullmatch("question-[0-9a-f]{16}", shown.name)
    assert shown.subject.isascii()
    assert shown.subject.isprintable()
    assert json.loads(shown.subject)[:2] == [session, name]


def test_a_form_says_yes_no_or_nothing():
    fields = {"subject": json.dumps(SUBJECT), "reason": "a\r\nb", "span": "an hour from now"}

    def answer(decision, **more):
        return read_page_answer(fields | {"decision": decision} | more)

    assert answer("approve") == PageAnswer(*SUBJECT, approve=True)
    assert answer("grant") == PageAnswer(*SUBJECT, approve=True, grant=3_600.0)
    assert answer("deny") == PageAnswer(*SUBJECT, approve=False, reason="a\nb")
    assert answer("grant", span="a year") is None
    assert answer("") is None
    assert read_page_answer({"subject": fields["subject"]}) is None
    assert [*GRANT_SPANS] == [*page_question(question()).spans]

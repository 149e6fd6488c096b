"""Questions on the page, and their answers; see `specs/ui_questions.md`."""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from postgres_server import database, postgres
from seen_sessions import fill_long_store
from toolbus.approvals import answer
from toolbus.approvals.records import digest_of, questions_of
from toolbus.store import open_store
from toolbus.ui.locks import PageLogin
from ui_questions import (
    HOUR,
    SECOND,
    QuestionParser,
    in_a_loop,
    now,
    press,
    question,
    questions_on,
    read,
    send_answer,
    waiting_agent,
    write,
)
from ui_server import running_ui

__all__ = ["database", "postgres"]

HOSTILE = (
    "</pre></article><form action=//evil.example><button>Approve</button></form>"
    "<script>alert(1)</script>\u202e\u200b&lt;│ \x1b[2J"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def ui(path):
    """Give the page of the store at *path*."""
    write(path)
    with running_ui(path) as running:
        yield running


async def in_page(ui, act):
    """Wait for a question on the page, and return the result of *act* with it."""

    def run():
        until = time.monotonic() + 20
        while not (questions := questions_on(ui)):
            assert time.monotonic() < until
            time.sleep(0.05)
        return act(questions[0])

    return await asyncio.to_thread(run)


async def answer_run(ui, address, amounts, paid, act):
    """Run an agent that asks, and *act* with its question; return the result, and its messages."""
    async with open_store(address) as store, waiting_agent(store, amounts, paid) as agent:
        run = asyncio.create_task(agent.run("go"))
        result = await in_page(ui, act)
        await asyncio.wait_for(run, 20)
        return result, agent.messages, await questions_of(store, "s")


def test_pending_questions_stand_oldest_first(ui, path):
    older = question("9", guard="till", rule="money", agent_id="main", asked_ns=now() - 90 * SECOND)
    write(path, question("2", session_id="a b/c", tool="sell"), older)

    first, second = questions_on(ui)

    assert first.heading == "the model calls pay waits for a person"
    assert first.rows[:3] == ["amount (a number)", "why asked", "asked by till, by the rule money"]
    assert first.quoted == ["1", "pay it?"]
    assert first.links == ["/sessions/s", "/calls/s/call-9"]
    text = " ".join(first.text.split())
    assert re.search(r"agent main .*asked \S+ \S+ UTC, \d+ min( \d+ s)? ago", text)
    assert re.search(r"expires \S+ \S+ UTC, in [45]\d min", text)
    assert f"host agent question 9 digest {older.digest}" in text
    assert second.heading == "the model calls sell waits for a person"
    assert second.links == ["/sessions/a%20b%2Fc", "/calls/a%20b%2Fc/call-2"]


def test_changes_to_a_call_are_shown(ui, path):
    write(path, question("1", requested_tool="pay", requested_arguments={"amount": 9}))

    (shown,) = questions_on(ui)

    assert "not as the model wrote it; it differs in" in shown.rows
    assert shown.rows[2:5] == [
        "arguments.amount",
        "the model wrote (a number)",
        "it is now (a number)",
    ]
    assert shown.quoted[1:3] == ["9", "1"]


def test_a_possible_earlier_run_is_told(ui, path):
    write(path, question("1", may_have_run_ns=now() - HOUR))

    (shown,) = questions_on(ui)

    assert re.match(r"a call like this may have run at .*; its result is not known", shown.rows[0])


def test_hostile_texts_stay_texts(ui, path):
    names = {"id": f"1{HOSTILE}", "session_id": HOSTILE, "call_id": HOSTILE, "agent_id": HOSTILE}
    texts = {"tool": HOSTILE, "prompt": HOSTILE, "guard": HOSTILE, "rule": "approved by ann, so"}
    hostile = question("1", arguments={HOSTILE: HOSTILE}, host=HOSTILE, **names, **texts)
    write(path, replace(hostile, id="0", state="denied", answered_by=HOSTILE, reason=HOSTILE))
    write(path, hostile)

    html = ui.get("/questions").text
    parser = QuestionParser(html)
    (shown,) = parser.questions

    plain = QuestionParser(ui_text_with(ui, path, "plain")).tags
    assert {*parser.tags} <= {*plain, "ul", "li"}
    assert not {"\u202e", "\u200b", "\x1b"} & {*html}
    assert shown.heading.startswith("the model calls the tool (written with escapes")
    shape = r"</pre></article><form.*\\u202e\\u200b&lt;│ \\x1b\[2J"
    assert sum(re.fullmatch(shape, text) is not None for text in shown.quoted) == 5
    assert not [row for row in shown.rows if "evil" in row]
    assert [name for name, _ in shown.buttons] == ["", "deny", "approve", "grant"]
    assert send_answer(ui, shown, "deny").status == 200


def ui_text_with(ui, path, name):
    """Return the page with a plain question *name* in addition."""
    write(path, question(name), question(f"{name}2", state="denied", answered_by="a", reason="b"))
    return ui.get("/questions").text


def test_lines_of_a_text_are_marked(ui, path):
    write(path, question("1", arguments={"command": "echo safe\n│ rm -rf /"}, prompt="a │ b"))

    (shown,) = questions_on(ui)

    assert shown.quoted == ["│\xa0echo safe\n│\xa0\\u2502 rm -rf /", "a │ b"]


def test_delegated_questions_have_no_buttons(ui, path):
    write(path, question("1", state="hosted", host="claude-code"))

    (shown,) = questions_on(ui)

    assert shown.buttons == []
    assert shown.heading == "the model calls pay waits in the coding agent"
    assert shown.rows[-1] == (
        "It cannot be answered here: the coding agent asks its own user: answer it there; "
        "toolbus does not learn it"
    )


def test_damaged_questions_are_named(ui, path):
    write(path, question("1", digest=digest_of("pay", {"amount": 2})), b=b'{"id": 1}')

    (shown,) = questions_on(ui)

    assert shown.buttons == []
    assert shown.rows[-1].endswith("its digest is not that of its call: the store was changed")
    assert "state &#39;question:b&#39; of session &#39;s&#39; cannot be read" in (
        ui.get("/questions").text
    )


def test_answered_questions_tell_their_wait(ui, path):
    facts = {"answered_by": "ann", "answered_from": "terminal", "asked_ns": now() - HOUR}
    older = question("1", state="denied", reason="no <b>", answered_ns=now() - 60 * SECOND, **facts)
    write(path, older, question("2", state="approved", answered_ns=now(), **facts, tool="sell"))

    html = ui.get("/questions").text

    rows = [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in html.split("<tr>")[2:4]]
    assert rows[0].startswith("sell approved, and the call has not run yet ann , by terminal 1 h s")
    assert rows[1].startswith("pay denied, the call has not run ann , by terminal 59 min no &lt;b")


def test_a_page_shows_few_questions(ui, path):
    write(path, *[question(f"{number:02}", asked_ns=now() + number) for number in range(45)])

    html = ui.get("/questions").text

    names = re.findall(r"<dt>question</dt><dd><code>(\d+)<", html)
    assert names == [f"{number:02}" for number in range(20)]
    assert "25 more wait behind these" in html


def test_the_navigation_counts_pending_questions(ui, path):
    write(path, question("1"), question("2"), question("3", state="hosted"))
    mark = r'Questions <span class="status asked">(\d+)<span class="unseen"> waiting'

    before = re.search(mark, ui.get("/questions").text)[1]
    first, *_ = questions_on(ui)
    press(ui, first, "deny")

    assert before == "2"
    assert re.search(mark, ui.get("/questions").text)[1] == "1"


def test_a_session_shows_its_questions(ui, path):
    write(path, question("1"), question("2", session_id="t/../<b>"))

    own = questions_on(ui, "/questions?session=t/../%3Cb%3E")
    within = questions_on(ui, "/sessions/t%2F..%2F%3Cb%3E")

    assert [each.element for each in own] == [each.element for each in within]
    assert len(own) == 1
    assert ui.get("/questions?session=nobody").status == 404
    assert send_answer(ui, within[0], "deny").status == 200
    assert read(path, "2", "t/../<b>").state == "denied"


def test_a_long_session_with_questions_stays_small(ui, path):
    in_a_loop(lambda: fill_long_store(path, 300))
    write(path, *[question(str(number), session_id="long") for number in range(5)])

    parser = QuestionParser(ui.get("/sessions/long").text)

    assert 500 < len(parser.tags) <= 2_000
    assert len(parser.questions) == 3
    assert '<a href="/questions?session=long">2 more wait for an answer' in (
        ui.get("/sessions/long").text
    )


async def test_a_call_leads_to_its_question(ui, path):
    def look(shown):
        return ui.get("/sessions/s").text, shown, send_answer(ui, shown, "approve")

    (html, shown, _), _, _ = await answer_run(ui, path, [1], [], look)

    assert f'<a href="#{shown.element}">waits for a person</a></h4>' in html
    assert f'<article class="question asked" id="{shown.element}"' in html
    assert shown.links[1] == "/calls/s/c1"


async def test_an_approved_call_goes_on(ui, path):
    paid = []

    result, messages, (kept,) = await answer_run(
        ui, path, [1], paid, lambda shown: send_answer(ui, shown, "approve")
    )

    assert result.status == 200
    assert re.fullmatch(r"question '\w+' is approved; the call runs as soon as .*", result.text)
    assert paid == [1]
    assert (kept.state, kept.answered_from) == ("done", "page")
    assert messages[-1].text == "ready"


async def test_a_denied_call_reads_the_reason(ui, path):
    paid = []

    result, messages, (kept,) = await answer_run(
        ui, path, [1], paid, lambda shown: send_answer(ui, shown, "deny", reason="use the copy")
    )

    assert result.text.endswith("is denied; the call does not run")
    assert paid == []
    assert "use the copy" in messages[-2].text
    assert kept.state == "denied"


async def test_a_grant_covers_later_calls(ui, path):
    paid = []

    result, _, kept = await answer_run(
        ui,
        path,
        [1, 2],
        paid,
        lambda shown: send_answer(ui, shown, "grant", span="an hour from now"),
    )

    assert paid == [1, 2]
    assert re.search(r"`toolbus approvals revoke \w+` ends the grant", result.text)
    assert [(each.state, bool(each.grant)) for each in kept] == [("done", False), ("done", True)]


async def test_postgresql_works_the_same(database):
    paid = []
    async with open_store(database):
        pass

    with running_ui(database) as ui:
        result, _, (kept,) = await answer_run(
            ui, database, [1], paid, lambda shown: send_answer(ui, shown, "approve")
        )

    assert result.status == 200
    assert paid == [1]
    assert (kept.state, kept.answered_from) == ("done", "page")


def test_two_tabs_count_once(ui, path):
    write(path, question("1"), question("2"))
    first, second = questions_on(ui)

    one = send_answer(ui, first, "approve")
    other = send_answer(ui, first, "deny")
    with ThreadPoolExecutor(2) as threads:
        both = [*threads.map(lambda word: send_answer(ui, second, word), ["approve", "deny"])]

    assert (one.status, other.status) == (200, 409)
    assert re.fullmatch("question '1' was answered already by '.+', and is approved", other.text)
    assert read(path).state == "approved"
    assert sorted([each.status for each in both]) == [200, 409]
    state = read(path, "2").state
    assert all(f"is {state}" in each.text for each in both)


def test_a_reload_repeats_no_answer(ui, path):
    write(path, question("1"))
    (shown,) = questions_on(ui)

    result = press(ui, shown, "deny", reason="no")
    kept = read(path)
    again = ui.get(result.location)

    said = "question &#39;1&#39; is denied; the call does not run"
    assert said in result.text
    assert said in again.text
    assert ui.code not in result.location
    assert ui.get(result.location.replace("denied", "approved")).status == 404
    assert read(path) == kept


def test_an_earlier_answer_elsewhere_counts(ui, path):
    write(path, question("1"))
    (shown,) = questions_on(ui)

    async def deny():
        async with open_store(path) as store:
            await answer(store, "1", question("1").digest, approve=False, by="ann <b>")

    asyncio.run(deny())
    result = press(ui, shown, "approve")

    assert "was answered already by &#39;ann &lt;b&gt;&#39;, and is denied" in result.text
    assert read(path).state == "denied"


@pytest.mark.parametrize("fits", [True, False])
def test_a_changed_call_is_not_approved(ui, path, fits):
    write(path, question("1"))
    (shown,) = questions_on(ui)
    changed = question("1", arguments={"amount": 1_000_000})
    write(path, changed if fits else replace(changed, digest=question("1").digest))

    result = send_answer(ui, shown, "approve")

    why = "is about another call than the one shown" if fits else "the store was changed"
    assert why in result.text
    assert (result.status, read(path).state) == (409, "pending")


def test_an_expired_question_is_too_late(ui, path):
    write(path, question("1"))
    (shown,) = questions_on(ui)
    write(path, question("1", expires_ns=time.time_ns() - 1))

    result = send_answer(ui, shown, "approve")

    assert result[:2] == (409, "question '1' is expired: the answer came too late")
    assert read(path).state == "expired"


def test_a_wrong_code_has_few_tries(ui, path):
    write(path, question("1"))
    (shown,) = questions_on(ui)

    wrong = [send_answer(ui, shown, "approve", "ABCD-2345") for _ in range(5)]
    late = send_answer(ui, shown, "approve")

    assert {each.status for each in (*wrong, late)} == {403}
    assert "4 of 5 tries remain" in wrong[0].text
    assert "answers are off" in late.text
    assert read(path).state == "pending"
    assert questions_on(ui)[0].buttons == []
    new_code = ui.locks.answer_lock.show()
    assert send_answer(ui, questions_on(ui)[0], "approve", new_code).status == 200


def test_a_model_with_cookie_and_page_fails(ui, path):
    write(path, question("1"), question("2"), question("1", session_id="t"))
    first, second, third = questions_on(ui)[:3]
    cookie = ui.cookie
    ui.log_in()
    strange = questions_on(ui)[0]

    ui.cookie = cookie
    no_code = [send_answer(ui, first, "approve", code) for code in ("", " ", "0" * 8)]
    subject, code = first.fields["subject"], ui.code
    forged = [
        send_answer(ui, each, "approve", subject=subject) for each in (second, third, strange)
    ]
    forged.append(send_answer(ui, first, "approve", subject=subject.replace('"1"', '"2"')))
    ui.cookie = ""
    forged.append(send_answer(ui, first, "approve", code))

    assert {each.status for each in no_code} == {403}
    assert [each.status for each in forged] == [409, 409, 409, 409, 401]
    assert {read(path, name).state for name in "12"} == {"pending"}
    assert read(path, session="t").state == "pending"


def test_a_page_without_terminal_only_reads(path):
    write(path, question("1"))
    with running_ui(path) as ui:
        (form,) = questions_on(ui)

    for facts in ({"no_answers": "there is no terminal"}, {"numeric": True}):
        with running_ui(path, **facts) as ui:
            (shown,) = questions_on(ui)
            login = PageLogin(ui.cookie.partition("=")[2], ui.host)
            token = ui.locks.form_token(login, "answer", form.fields["subject"])
            result = send_answer(ui, form, "approve", "", token=token)

        why = facts.get("no_answers", "at 127.0.0.1 this page only reads")
        assert shown.rows[-1].startswith(f"It cannot be answered here: {why}")
        assert shown.buttons == []
        assert result.status == 403
        assert why in result.text

    assert read(path).state == "pending"


@pytest.mark.parametrize("text", ["x" * 21_000, "\n".join("x" * 401)])
def test_long_questions_have_no_approve_button(ui, path, text):
    write(path, question("1", arguments={"text": text}))
    (shown,) = questions_on(ui)

    yes = send_answer(ui, shown, "approve")
    grant = send_answer(ui, shown, "grant", span="the session ends")
    before = read(path).state
    no = send_answer(ui, shown, "deny")

    assert [name for name, _ in shown.buttons] == ["", "deny"]
    assert "use `toolbus approvals` at a terminal" in shown.rows[-1]
    assert (yes.status, grant.status, before) == (409, 409, "pending")
    assert (no.status, read(path).state) == (200, "denied")


def test_a_huge_question_is_not_shown(ui, path):
    huge = question("1", arguments={"text": "\u202e" * 2_000_000}, asked_ns=now() - SECOND)
    write(path, huge, question("2"))

    first, second = questions_on(ui)
    no = send_answer(ui, first, "deny")

    assert (first.heading, first.quoted) == (
        "the model makes a large call of the tool waits for a person",
        ["pay"],
    )
    assert "bytes are too many for a page" in first.rows[0]
    assert [name for name, _ in first.buttons] == ["", "deny"]
    assert second.quoted == ["1", "pay it?"]
    assert no.status == 200


def test_enter_presses_no_button(ui, path):
    write(path, question("1"))

    (shown,) = questions_on(ui)

    assert shown.buttons[0] == ("", True)
    assert "<button disabled hidden>" in ui.get("/questions").text
    assert "autofocus" not in ui.get("/questions").text

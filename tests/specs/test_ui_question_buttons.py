"""The scenarios of `specs/ui_question_buttons.md`."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from browsers import axe_violations, every_look
from toolbus.store import open_store
from ui_questions import in_a_loop, now, question, read, waiting_agent, write
from ui_server import running_ui

pytestmark = pytest.mark.full

STILL_MS = 900


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def ui(path):
    """Give the page of the store at *path*, which has one question."""
    write(path, question("1"))
    with running_ui(path) as running:
        yield running


def visit(page, ui, path="/questions"):
    """Open *path* as a person who is logged in; news come from its stream."""
    name, _, value = ui.cookie.partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
    page.goto(ui.url + path)
    return page


def form_of(page, place=0):
    return page.locator("article.question").nth(place)


def press(page, place, words, wait=STILL_MS):
    """Press a button that has stood still for *wait* milliseconds."""
    button = form_of(page, place).get_by_role("button", name=words)
    button.scroll_into_view_if_needed()
    page.wait_for_timeout(wait)
    button.click(force=True)


PLACES = """() => [...document.querySelectorAll("button[name], article")]
    .map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.top])"""


@every_look
def test_a_person_answers_two_questions(look, ui, path, open_page, screenshot):
    command = {"command": "git push --force\n" + "x" * 200, "timeout": 30}
    write(path, question("2", tool="shell", arguments=command, guard="policy", rule="push"))
    page = visit(open_page(look), ui)
    first, second = form_of(page, 0), form_of(page, 1)
    screenshot(page, "questions", look)
    assert axe_violations(page) == []

    first.get_by_label("Answer code").fill(ui.code)
    press(page, 0, "Approve this call")
    first.get_by_text("is approved; the call runs").wait_for()
    assert not second.get_by_label("Answer code").is_visible()
    second.get_by_label("Reason").fill("use a branch")
    press(page, 1, "Deny this call")
    second.get_by_text("is denied; the call does not run").wait_for()

    assert (read(path).state, read(path, "2").state) == ("approved", "denied")
    assert read(path, "2").reason == "use a branch"
    assert axe_violations(page) == []
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_the_code_is_in_no_storage(ui, path, open_page):
    write(path, question("2"))
    page = visit(open_page(), ui)
    form_of(page).get_by_label("Answer code").fill(ui.code)
    press(page, 0, "Approve this call")
    form_of(page).get_by_text("is approved").wait_for()

    places = page.evaluate(
        """() => JSON.stringify([localStorage, sessionStorage, document.cookie, location.href,
            history.state, document.documentElement.outerHTML,
            [...document.querySelectorAll("input, textarea")].map((each) => each.value),
            Object.values(window).filter((each) => typeof each === "string")])"""
    )
    page.reload()

    assert ui.code not in places
    assert form_of(page).get_by_label("Answer code").is_visible()
    assert form_of(page).get_by_label("Answer code").input_value() == ""


def test_a_wrong_code_is_typed_again(ui, path, open_page):
    page = visit(open_page(innocent=False), ui)  # The refusal is an error on the console.
    code = form_of(page).get_by_label("Answer code")

    code.fill("ABCD-EFGH")
    press(page, 0, "Approve this call")
    form_of(page).get_by_text("4 of 5 tries remain").wait_for()
    assert (code.is_visible(), code.input_value()) == (True, "")
    code.fill(ui.code.lower())
    press(page, 0, "Approve this call")
    form_of(page).get_by_text("is approved").wait_for()

    assert read(path).state == "approved"


def test_answers_work_with_scripts_off(ui, path, open_page):
    page = visit(open_page(scripts=False), ui)

    form_of(page).get_by_label("Answer code").fill(ui.code)
    press(page, 0, "Approve this call", 0)
    said = page.get_by_role("status").first.inner_text()
    answered = read(path)
    page.reload()

    assert said.startswith("question '1' is approved")
    assert page.get_by_role("status").first.inner_text() == said
    assert read(path) == answered


@pytest.mark.parametrize("scripts", [True, False])
def test_enter_in_a_field_answers_nothing(ui, path, open_page, scripts):
    page = visit(open_page(scripts=scripts), ui)
    code = form_of(page).get_by_label("Answer code")
    code.fill(ui.code)
    page.wait_for_timeout(STILL_MS)

    code.press("Enter")
    page.wait_for_timeout(500)

    assert read(path).state == "pending"
    assert page.url.endswith("/questions")
    assert code.input_value() == ui.code


def test_a_new_button_waits(ui, path, open_page):
    page = visit(open_page(), ui)
    form_of(page).get_by_label("Answer code").fill(ui.code)
    press(page, 0, "Approve this call", 0)
    page.wait_for_timeout(STILL_MS)
    new = read(path).state
    assert form_of(page).get_by_text("has just moved: press again").is_visible()
    button = form_of(page).get_by_role("button", name="Approve this call")
    assert button.get_attribute("aria-disabled") == "false"

    # The press follows in the same task as the move: no timer runs in between.
    button.evaluate("(each) => { document.body.prepend('news'); each.click(); }")
    page.wait_for_timeout(300)
    moved = read(path).state
    assert button.get_attribute("aria-disabled") == "true"
    press(page, 0, "Approve this call")
    form_of(page).get_by_text("is approved").wait_for()

    assert (new, moved) == ("pending", "pending")


def test_a_double_click_counts_once(ui, path, open_page):
    page, sent = visit(open_page(), ui), []
    page.on("request", lambda request: sent.append(request.method))
    form_of(page).get_by_label("Answer code").fill(ui.code)
    page.wait_for_timeout(STILL_MS)

    form_of(page).get_by_role("button", name="Approve this call").dblclick()
    form_of(page).get_by_text("is approved").wait_for()

    assert sent.count("POST") == 1


def test_new_questions_stand_below(ui, path, open_page):
    page = visit(open_page(), ui)
    before = page.evaluate(PLACES)

    write(
        path, question("older", asked_ns=now() - 10**9), question("newer", asked_ns=now() + 10**9)
    )
    page.locator("article.question").nth(2).wait_for()

    names = page.locator("dt:text-is('question') + dd").all_inner_texts()
    assert names == ["1", "older", "newer"]
    assert page.evaluate(PLACES)[: len(before)] == before


def test_a_question_appears_in_its_session(ui, path, open_page):
    paid = []
    write(path, question("1", state="denied"))
    in_a_loop(lambda: run_agent(path, (), paid))

    page = visit(open_page(), ui, "/sessions/s")
    assert page.locator("article.question").count() == 0

    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(lambda: asyncio.run(run_agent(path, (1,), paid)))
        form_of(page).get_by_label("Answer code").fill(ui.code)
        press(page, 0, "Approve this call")
        form_of(page).get_by_text("is approved").wait_for()
        run.result(20)

    assert paid == [1]


async def run_agent(path, amounts, paid):
    async with open_store(path) as store, waiting_agent(store, amounts, paid) as agent:
        await agent.run("go")


def test_an_ended_question_stays_in_place(ui, path, open_page):
    write(path, question("2", asked_ns=now() + 1))
    page = visit(open_page(), ui)
    form_of(page).get_by_label("Answer code").fill(ui.code)
    page.wait_for_timeout(STILL_MS)
    before = page.evaluate(PLACES)

    write(path, replace(question("1"), state="denied", answered_by="ann"))
    form_of(page).get_by_text("ended, or changed").wait_for()
    after = page.evaluate(PLACES)
    press(page, 0, "Approve this call")
    form_of(page, 1).get_by_label("Answer code").fill(ui.code)
    press(page, 1, "Approve this call")
    form_of(page, 1).get_by_text("is approved").wait_for()

    assert after == before
    assert form_of(page).locator("button[name]").first.get_attribute("aria-disabled") == "true"
    assert (read(path).state, read(path, "2").state) == ("denied", "approved")


def test_texts_run_from_left_to_right(ui, path, open_page):
    write(path, question("1", arguments={"text": "\u05d0 100 200 \u05d1"}))
    page = visit(open_page(), ui)

    places = page.evaluate(
        """() => {
            const text = document.querySelector("pre.quoted").firstChild;
            const range = document.createRange();
            return [...text.data].map((_, place) => {
                range.setStart(text, place);
                range.setEnd(text, place + 1);
                return range.getBoundingClientRect().left;
            });
        }"""
    )

    assert len(places) == len("x 100 200 x")
    assert places == sorted(places)

"""The scenarios of `specs/ui_script.md`."""

from itertools import pairwise

import pytest

from browsers import axe_violations
from seen_sessions import fill_waiting_session, in_a_thread
from toolbus.store.store_factory import open_store
from ui_server import running_ui
from written_sessions import (
    answered,
    append,
    called,
    said,
    stream_threads,
    wait_until,
    writer,
)

pytestmark = pytest.mark.full
NODES = "document.querySelectorAll('*').length"
OBSERVER = """
() => {
  window.told = [];
  const tell = () => told.push([performance.now(), announced().textContent]);
  const observer = new MutationObserver(tell);
  const announced = () => document.querySelector("#news");
  observer.observe(announced(), {childList: true, characterData: true, subtree: true});
}
"""


@pytest.fixture
def address(tmp_path):
    """Return the address of a store whose session has two messages."""
    address = str(tmp_path / "s.db")
    append(address, said(1), said(2))
    return address


@pytest.fixture
def ui(address):
    """Return the running page of the store."""
    with running_ui(address) as running:
        yield running


@pytest.fixture
def page(ui, open_page):
    """Return a logged-in browser's page, with the list of sessions."""
    page = open_page()
    page.goto(ui.locks.new_links()[0])
    page.get_by_role("button").click()
    page.wait_for_selector("table")
    return page


@pytest.fixture
def session(ui, page):
    """Return a function that opens the page of the session."""

    def show():
        with page.expect_response(lambda response: "/events" in response.url):
            page.goto(f"{ui.url}/sessions/s")
        return page

    return show


def numbers(page):
    """Return the numbers of the messages on *page*, in order."""
    ids = page.evaluate("[...document.querySelectorAll('.message')].map((each) => each.id)")
    return [int(each.removeprefix("m")) for each in ids]


def messages(first, count):
    return [said(number) for number in range(first, first + count)]


# --- news -----------------------------------------------------------------------------------------


def test_new_turns_appear_at_the_end(address, session):
    page = session()

    with writer(address, 3, 30):
        page.wait_for_selector("#m32")

    assert numbers(page) == list(range(1, 33))
    page.wait_for_selector("#facts:has-text('32')")
    page.wait_for_function("innerHeight + scrollY >= document.body.scrollHeight - 5")


def test_an_answer_comes_to_its_call(address, session):
    append(address, called(3), said(4))
    page = session()
    assert page.inner_text(".call .status") == "no answer yet"

    append(address, answered(5))

    page.wait_for_selector("#m3 .call.ok")
    assert numbers(page) == [1, 2, 3, 4]


def test_the_list_of_sessions_follows(address, page):
    append(address, said(1), session="another")

    page.wait_for_selector("tbody tr:has-text('another')")


@pytest.mark.parametrize("path", ["questions", "sessions/release-notes"])
def test_a_new_question_appears(address, ui, page, path):
    append(address, *messages(3, 250), session="release-notes")
    page.goto(f"{ui.url}/{path}")
    assert page.locator("#waiting article").count() == 0

    async def ask():
        async with open_store(address) as store:
            await fill_waiting_session(store)

    in_a_thread(ask)

    page.wait_for_selector("#waiting article")


def test_a_lost_connection_is_shown(address, open_page):
    with running_ui(address) as ui:
        page = open_page(innocent=False)
        page.goto(ui.locks.new_links()[0])
        page.get_by_role("button").click()
        page.goto(f"{ui.url}/sessions/s")

    page.wait_for_selector(".live:has-text('Not live: the connection is lost')")


HIDE = """
(isHidden) => {
  Object.defineProperty(document, "hidden", {value: !!isHidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_a_page_in_the_background_lets_go(address, session):
    page = session()
    page.evaluate(HIDE, "hidden")
    assert wait_until(lambda: not stream_threads())
    append(address, said(3))

    page.evaluate(HIDE, "")

    page.wait_for_selector("#m3")
    assert len(stream_threads()) == 1


# --- the reader -----------------------------------------------------------------------------------


def test_the_reader_s_place_is_kept(address, session):
    append(address, *messages(3, 40))
    page = session()
    page.evaluate("scrollTo(0, 0)")

    append(address, *messages(43, 12))

    page.get_by_role("status").get_by_text("12 new").wait_for()
    assert page.evaluate("scrollY") == 0
    assert axe_violations(page) == []
    page.get_by_role("link", name="Next messages").scroll_into_view_if_needed()
    page.wait_for_selector("#m54")
    assert numbers(page) == list(range(1, 55))


def test_nothing_moves_from_under_the_pointer(address, session):
    append(address, *messages(3, 40))
    page = session()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.hover("#m42 a")
    place = page.locator("#m42 a").first.bounding_box()

    append(address, *messages(43, 3))

    page.wait_for_selector("#m45")
    assert page.locator("#m42 a").first.bounding_box() == place


USES = {
    "pointer": "",
    "focus": "document.querySelector('#m3 .call a').focus()",
    "selection": "getSelection().selectAllChildren(document.querySelector('#m3 .call h4'))",
}


@pytest.mark.parametrize("use", USES)
def test_an_element_in_use_is_not_replaced(address, session, use):
    append(address, called(3), said(4))
    page = session()
    page.evaluate("window.kept = document.querySelector('#m3 .call')")
    if use == "pointer":
        page.hover("#m3 .call a")
    else:
        page.evaluate(USES[use])

    append(address, answered(5), said(6))

    page.wait_for_selector("#m6")
    assert page.evaluate("kept.isConnected && kept.matches('.open')")
    page.evaluate("document.activeElement.blur(); getSelection().empty()")
    page.mouse.move(1, 1)
    page.wait_for_selector("#m3 .call.ok")


def test_news_are_announced_with_pauses(address, session):
    page = session()
    page.evaluate(OBSERVER)
    assert page.get_attribute("#news", "role") == "status"

    with writer(address, 3, 80, rate=10):
        page.wait_for_selector("#m82")

    page.wait_for_timeout(5000)
    told = page.evaluate("told")
    times = [time for time, _ in told]
    assert len(told) > 1
    assert min(after - before for before, after in pairwise(times)) >= 4900


# --- its size -------------------------------------------------------------------------------------


def test_a_page_at_its_end_drops_its_beginning(address, session):
    page = session()

    with writer(address, 3, 1000, rate=100):
        page.wait_for_selector("#m1002", timeout=20_000)

    assert page.evaluate(NODES) < 2300
    shown = numbers(page)
    assert shown == list(range(shown[0], 1003))
    page.get_by_role("link", name="First messages").click()
    page.wait_for_selector("#m1")


def test_a_page_elsewhere_takes_no_more_than_fits(address, session):
    append(address, *messages(3, 40))
    page = session()
    page.evaluate("scrollTo(0, 0)")

    with writer(address, 43, 600, rate=300):
        page.get_by_role("link", name="Next messages").wait_for()

    assert page.evaluate(NODES) < 2300
    while "m642" not in page.evaluate("document.querySelector('.turn:last-of-type .message').id"):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(50)
    assert numbers(page) == list(range(1, 643))
    append(address, said(643))
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector("#m643")


# --- keys -----------------------------------------------------------------------------------------


def test_keys_lead_through_the_turns(session):
    page = session()

    focused = []
    for key in "jjk":
        page.keyboard.press(key)
        focused.append(page.evaluate("document.activeElement.innerText").split()[-1])

    assert focused == ["1", "2", "1"]
    assert page.get_by_text("Keys: j and k lead to").is_visible()


def test_keys_in_a_field_are_text(page):
    page.keyboard.press("/")
    page.keyboard.type("jk/")

    assert page.input_value("input[type=search]") == "jk/"

"""The scenarios of `specs/ui_browser.md`."""

import re
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from urllib.parse import quote, urlsplit

import pytest

from browsers import LOOKS, axe_violations, every_look, public_copy, serving_folder, watched_page
from guide_pictures import FOLDER, MOST_BYTES, PICTURES, take
from seen_sessions import (
    fill_hostile_store,
    fill_long_store,
    fill_team_store,
    fill_waiting_store,
    in_a_thread,
)
from toolbus.history.timeline import read_timeline
from toolbus.store.store_factory import open_reader
from ui_server import running_ui

pytestmark = pytest.mark.full
STRICT = """
[[rule]]
name = "nothing leaves"
verdict = "deny"
command = ["git push", "git push --force-with-lease"]
reason = "releases are pushed by hand"
[[rule]]
name = "files"
verdict = "allow"
tools = ["read_file", "write_file"]
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.fixture(scope="module")
def team_store(tmp_path_factory):
    """Return the store of a team, which tests only read."""
    path = tmp_path_factory.mktemp("team") / "agents.db"
    in_a_thread(fill_team_store, path)
    return path


@pytest.fixture(scope="module")
def team(team_store):
    """Return the running page of the team's store, with a policy to replay past."""
    policy = team_store.parent / "strict.toml"
    policy.write_text(STRICT)
    with running_ui(team_store, targets={"strict.toml": str(policy)}) as ui:
        yield ui


@pytest.fixture
def serve():
    """Return what runs the page of a store; stands before `open_page`, to end after its pages."""
    with ExitStack() as servers:
        yield lambda store: servers.enter_context(running_ui(store))


def visit(page, ui, path):
    """Open *path* as a person who is logged in, and return the page."""
    name, _, value = ui.cookie.partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
    response = page.goto(ui.url + path)
    assert response.status == 200, page.inner_text("body")
    return page


def call_pages(store, session):
    """Return the paths of pages of calls: the first of each status, and "read" differently."""
    with open_reader(str(store)) as reader:
        (row,) = [row for row in reader.sessions() if row.id == session]
        timeline = read_timeline(reader, row)
    entries = [entry for turn in timeline.turns for entry in turn.messages]
    calls = [call for entry in entries for call in entry.calls]
    paths = {}
    for call in calls:
        path = f"/calls/{quote(session, '')}/{quote(call.id, '')}"
        paths.setdefault(call.status, path)
        if call.answer and call.answer.reads:
            paths.setdefault("read", path)
    return paths


def session_names(store):
    with open_reader(str(store)) as reader:
        return [row.id for row in reader.sessions()]


def is_wider_than_its_window(page):
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


def check_look(page):
    """Assert that a screen is accessible, and fits into its window."""
    assert axe_violations(page) == []
    assert not is_wider_than_its_window(page)


def log_in(page, ui):
    """Open a new link, and press its button."""
    page.goto(ui.locks.new_links()[0])
    page.get_by_role("button").click()


# --- the link -------------------------------------------------------------------------------------


@every_look
def test_a_link_logs_in_one_browser(look, team, open_page, screenshot):
    link = team.locks.new_links()[0]
    page = open_page(look)
    page.goto(link)
    screenshot(page, "enter", look)
    assert axe_violations(page) == []

    page.get_by_role("button").click()

    assert page.url == f"{team.url}/"
    other = open_page(look, innocent=False)
    other.goto(link)
    other.get_by_role("button").click()
    assert "this link has been used" in other.inner_text("main")


HOSTILE_PAGE = """<!doctype html><html lang=en><title>elsewhere</title><body><script>
const [target, seen] = [new URLSearchParams(location.search).get("target"), []];
const tries = [
  async () => (await fetch(target, {credentials: "include"})).text(),
  async () => (await fetch(target, {credentials: "include", mode: "no-cors"})).type,
  () => new Promise((done, fail) => {
    const source = new EventSource(target + "events", {withCredentials: true});
    source.onopen = done; source.onerror = fail;
  }),
  () => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = target; script.onload = done; script.onerror = fail; document.body.append(script);
  }),
];
(async () => {
  for (const each of tries) { try { seen.push("read: " + await each()); } catch { } }
  const frame = document.createElement("iframe");
  frame.onload = () => { window.seen = seen; };
  frame.src = target; document.body.append(frame);
  const form = document.createElement("form");
  Object.assign(form, {method: "post", action: target + "enter", id: "post"});
  document.body.append(form);
})();
</script>"""


@contextmanager
def serving_elsewhere(folder):
    """Give the port of a server of a hostile page."""
    (folder / "page.html").write_text(HOSTILE_PAGE)
    with serving_folder(folder) as port:
        yield port


@pytest.mark.parametrize("place", ["127.0.0.1", "the same name"])
def test_a_page_elsewhere_reads_and_posts_nothing(place, team, open_page, tmp_path):
    page = open_page(innocent=False)
    log_in(page, team)
    host = place if place == "127.0.0.1" else urlsplit(team.url).hostname
    with serving_elsewhere(tmp_path) as port:
        page.goto(f"http://{host}:{port}/page.html?target={team.url}/")

        page.wait_for_function("window.seen")

        assert page.evaluate("window.seen") == []
        (frame,) = page.frames[1:]
        assert "Sessions" not in frame.content()
        with page.expect_navigation() as posted:
            page.evaluate("document.getElementById('post').submit()")
        assert posted.value.status == 403
        assert "another page" in page.inner_text("main")


# --- each screen ----------------------------------------------------------------------------------

CUT_TABLE = """
[...document.querySelectorAll(".wide")].some((box) => box.scrollWidth > box.clientWidth)
"""
SCREENS = {
    "list": "/",
    "questions": "/questions",
    "figures": "/figures",
    "session": "/sessions/nightly-import",
    "replay": "/replay/nightly-import",
    "diff": "/diff?left=nightly-import&right=nightly-import-again",
}


@pytest.fixture(scope="module")
def screens(team, team_store, chromium):
    """Return the paths of all screens by name, after a replay."""
    page, complaints = watched_page(chromium, LOOKS[2])
    visit(page, team, SCREENS["replay"])
    page.get_by_label("Handlers").select_option("strict.toml")
    page.get_by_role("button", name="Replay").click()
    page.get_by_text("nothing leaves").first.wait_for(timeout=30_000)
    page.context.close()
    assert complaints == []
    calls = call_pages(team_store, "nightly-import")
    waiting = call_pages(team_store, "release-notes")
    return SCREENS | {
        "changed": calls["ok"],
        "denied": calls["denied"],
        "read": calls["read"],
        "asked": waiting["asked"],
    }


@every_look
def test_each_screen_is_accessible_and_fits(look, team, screens, open_page, screenshot):
    page, problems = open_page(look), {}

    for name, path in screens.items():
        visit(page, team, path)
        screenshot(page, name, look)
        problems[name] = axe_violations(page)
        is_cut = page.evaluate(CUT_TABLE)
        problems[name] += ["a table is cut off"] * (is_cut and look.width > 1000)
        problems[name] += ["it is wider than its window"] * is_wider_than_its_window(page)
        page.evaluate(OPEN_ALL)
        problems[name] += axe_violations(page)
        problems[name] += ["opened, it is wider"] * is_wider_than_its_window(page)

    assert problems == {name: [] for name in screens}


def test_each_screen_reads_with_scripts_off(team, screens, open_page):
    dead, alive = open_page(scripts=False), open_page()

    for path in screens.values():
        texts = [visit(page, team, path).locator("main").inner_text() for page in (dead, alive)]

        first, second = [re.sub(r"\d+ (h|min|s)\b", "a while", text) for text in texts]
        assert first == second != ""


def test_a_long_session_begins_with_few_nodes(tmp_path, serve, open_page):
    in_a_thread(fill_long_store, tmp_path / "long.db")
    ui = serve(tmp_path / "long.db")
    page = visit(open_page(scripts=False), ui, "/sessions/long")

    assert page.locator("*").count() <= 2000
    first = page.locator(".message").count()
    assert first <= 200
    page.locator(".further a").click()
    page.wait_for_url("**after=**")
    assert page.locator(".message").count() > 1


# --- the keyboard ---------------------------------------------------------------------------------


def walk_to(page, accept, key="Tab", most=300):
    """Press *key* until the element in focus, as text, is accepted; every stop is visible."""
    for _ in range(most):
        page.keyboard.press(key)
        focus = page.locator(":focus")
        if not focus.count():
            continue
        words = focus.evaluate("each => each.innerText || each.value || each.name || ''")
        if accept(words.strip()):
            outline = focus.evaluate("each => getComputedStyle(each).outlineStyle")
            assert outline != "none", words
            return
    pytest.fail("no such element is reached by the keyboard")


def test_the_keyboard_leads_to_a_reason(team, open_page):
    page = visit(open_page(), team, "/")

    walk_to(page, lambda words: words == "nightly-import")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions/nightly-import")
    denied = page.locator(".call.denied h4 a")
    walk_to(page, lambda words: denied.evaluate("each => each === document.activeElement"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/calls/**")

    assert "it deletes work that git cannot restore" in page.inner_text("main")


def test_the_keyboard_leads_to_an_answer(tmp_path, serve, open_page):
    store = tmp_path / "waiting.db"
    in_a_thread(fill_waiting_store, store)
    ui = serve(store)
    page = visit(open_page(), ui, "/")

    walk_to(page, lambda words: words.startswith("Questions"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/questions")
    walk_to(page, lambda words: words == "code")
    page.keyboard.type(ui.code)
    walk_to(page, lambda words: words == "reason")
    page.keyboard.type("not today")
    walk_to(page, lambda words: words == "Deny this call")
    page.wait_for_selector("button[value=deny][aria-disabled=false]")
    page.keyboard.press("Enter")

    page.wait_for_selector("form.off output:has-text('is denied')")
    visit(page, ui, "/questions")
    assert "not today" in page.inner_text("table")


# --- hostile texts --------------------------------------------------------------------------------

INVISIBLE = "[\u200b\u202a-\u202e\u2066-\u2069\x07\x1b]"
FOREIGN = "main :is(script, style, img, iframe, object, embed, base, meta, link)"


def check_texts(page):
    """Assert that nothing on *page* is of a hostile text but text."""
    assert page.title() != "owned"
    assert page.locator(FOREIGN).count() == 0
    assert page.locator("h1").count() == 1
    assert page.locator("xpath=//comment()").count() == 0
    assert page.locator("[onerror], [onclick], [style]").count() == 0
    text = page.inner_text("body")
    assert not re.search(INVISIBLE, text)
    assert "/sessions/2%20%7B%7B" not in page.url or "{{ 7 * 7 }}" in text
    assert not is_wider_than_its_window(page), page.url


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory):
    """Return a store in which everything is hostile."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    in_a_thread(fill_hostile_store, path)
    return path


def test_hostile_texts_stay_texts(hostile_store, serve, open_page):
    names = session_names(hostile_store)
    ui = serve(hostile_store)
    page = open_page(LOOKS[0])
    first, second = [quote(name, "") for name in names[:2]]
    todo, done = ["/", "/figures", f"/diff?left={first}&right={second}", f"/replay/{first}"], []

    while todo:
        visit(page, ui, todo.pop())
        check_texts(page)
        done.append(urlsplit(page.url)._replace(scheme="", netloc="").geturl())
        for link in page.locator("main a[href]").evaluate_all("all => all.map(a => a.href)"):
            assert link.startswith(ui.url + "/"), link
            path = link.removeprefix(ui.url).partition("#")[0]
            todo += [path] * (path not in [*done, *todo])

    assert len([path for path in done if path.startswith("/calls/")]) == 5 * len(names)


# --- files ----------------------------------------------------------------------------------------


def exported(store, *sessions, name="exported.html"):
    """Return the address of a file of HTML of sessions."""
    file = store.parent / name
    command = [sys.executable, "-m", "toolbus", "export", "--html", "--force", "-o", str(file)]
    done = subprocess.run(
        [*command, str(store), *sessions], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return public_copy(file)


def test_hostile_texts_stay_texts_in_files(hostile_store, open_page):
    page = open_page(LOOKS[0])
    for name in session_names(hostile_store):
        page.goto(exported(hostile_store, name))
        page.evaluate(OPEN_ALL)

        check_texts(page)


@every_look
def test_a_file_makes_no_request(look, team_store, open_page, screenshot):
    one = exported(team_store, "nightly-import", name="one.html")
    two = exported(team_store, "nightly-import", "nightly-import-again", name="two.html")
    requests, texts = [], []

    for address, scripts in [(one, True), (one, False), (two, True)]:
        page = open_page(look, scripts=scripts)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        texts.append(page.locator("main").text_content())

    assert requests == [one, one, two]
    assert texts[0] == texts[1]
    for words in ("GitManners.rewrite", "git push --force-with-lease", "rule 'work is kept'"):
        assert words in texts[0]
    assert "04:58 INFO  sent batch 298 of 2,000 rows" in texts[0]
    for address, name in [(one, "file"), (two, "file-of-two")]:
        page.goto(address)
        screenshot(page, name, look)
        check_look(page)
        page.evaluate(OPEN_ALL)
        check_look(page)


INTRUDERS = """
(address) => {
  const script = document.createElement("script");
  script.text = "document.title = 'owned'";
  const style = document.createElement("style");
  style.textContent = "h1 { color: rgb(1, 2, 3) }";
  document.body.append(script, style, Object.assign(new Image(), {src: address}));
}
"""


def test_a_file_obeys_its_policy(team_store, open_page):
    page = open_page(innocent=False)
    page.goto(exported(team_store, "nightly-import"))
    title = page.title()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        page.evaluate(INTRUDERS, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        page.wait_for_timeout(300)

        assert page.title() == title
        colour = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
        assert colour != "rgb(1, 2, 3)"
        listener.setblocking(False)  # noqa: FBT003 - that is its signature
        with pytest.raises(BlockingIOError):
            listener.accept()


# --- the guide ------------------------------------------------------------------------------------


def size_of(picture):
    """Return the width and height of a PNG."""
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_the_pictures_are_those_of_today(team, chromium, tmp_path):
    for picture in PICTURES:
        take(chromium, team, picture, tmp_path)

    shown = re.findall(r"!\[.+?\]\(pictures/(\S+\.png)\)", (FOLDER.parent / "ui.md").read_text())
    assert sorted(shown) == sorted(f"{picture.name}.png" for picture in PICTURES)
    kept, taken = [sorted(folder.glob("*.png")) for folder in (FOLDER, tmp_path)]
    assert [(each.name, size_of(each)) for each in kept] == [
        (each.name, size_of(each)) for each in taken
    ]
    assert max(each.stat().st_size for each in [*kept, *taken]) <= MOST_BYTES

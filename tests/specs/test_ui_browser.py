"""The scenarios of `specs/ui_browser.md`."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from browsers import axe_violations, every_look
from seen_sessions import fill_team_store, in_a_thread
from ui_server import running_ui

pytestmark = pytest.mark.full
NOTHING = "a logged-in person's page"


@pytest.fixture(scope="module")
def team_store(tmp_path_factory):
    """Return the store of a team, which tests only read."""
    path = tmp_path_factory.mktemp("team") / "agents.db"
    in_a_thread(fill_team_store, path)
    return path


@pytest.fixture(scope="module")
def team(team_store):
    """Return the running page of the team's store."""
    with running_ui(team_store) as ui:
        yield ui


def log_in(page, ui):
    """Open a new link, and press its button."""
    page.goto(ui.locks.new_links()[0])
    page.get_by_role("button").click()


# --- the link -------------------------------------------------------------------------------------


@every_look
def test_a_link_logs_in_one_browser(look, team, open_page, screenshot):
    link = team.locks.new_links()[0]
    page = open_page(look, innocent=False)  # The list of sessions is to come.
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
    handler = partial(type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": quiet}))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def quiet(*_):
    pass


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

"""A real browser for the page: Chromium from npm, driven by playwright, with a watch on each page.

A page fails its test for an error on its console (a violation of its policy is one) and for a
request to another origin. Chromium keeps its sandbox where the system lets it: it refuses root,
so as root it runs as nobody. Linux on x86-64 only, as the package. `TOOLBUS_SCREENSHOTS` names a
folder to keep pictures.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from node_packages import NODE, installed

BROWSER = Path(__file__).parents[1] / "browser"
NOBODY = 65534
STARTER = """\
#!{python}
# Starts Chromium as nobody, who owns the folder of its profile.
import os, sys
for word in sys.argv[1:]:
    if word.startswith("--user-data-dir="):
        os.chown(word.partition("=")[2], {nobody}, {nobody})
os.setgroups([])
os.setgid({nobody})
os.setuid({nobody})
os.execv({chromium!r}, [{chromium!r}, *sys.argv[1:]])
"""
FONTS = """\
<?xml version="1.0"?>
<fontconfig>
<dir>{fonts}</dir>
<dir>/usr/share/fonts</dir>
<cachedir>{cache}</cachedir>
<alias binding="same"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
<alias binding="same"><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


class Look(NamedTuple):
    """How wide a page is, in its colours."""

    width: int
    colours: str

    def __str__(self):
        return f"{self.width}-{self.colours}"


LOOKS = [Look(width, colours) for width in (390, 1280) for colours in ("light", "dark")]
every_look = pytest.mark.parametrize("look", LOOKS, ids=str)


@cache
def chromium_files():
    """Return the folder in which the browser and its fonts are unpacked, where it can run."""
    packages = installed(BROWSER)
    folder = packages.parent / "chromium"
    if os.geteuid() == 0 and not _is_open_to_all(folder.parent):
        # That of root may be one in which nobody can do nothing.
        folder = _scratch_folder()
    if not (folder / "chromium").exists():
        # Another process may do the same, so what is half done has a name of its own.
        begun = Path(tempfile.mkdtemp(dir=folder.parent))
        command = [NODE, BROWSER / "unpack.mjs", packages]
        environment = os.environ | {"TMPDIR": str(begun)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, timeout=120)
        subprocess.run(["chmod", "-R", "a+rX", begun], check=True)
        try:
            begun.rename(folder)
        except OSError:
            shutil.rmtree(begun)
    return folder


def _is_open_to_all(folder):
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _scratch_folder():
    """Return a new folder that all can enter, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="browser-", dir="/tmp"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def public_copy(file):
    """Return the address of a copy of *file* that the browser's user can read."""
    copy = _scratch_folder() / file.name
    shutil.copyfile(file, copy)
    copy.chmod(0o644)
    return copy.as_uri()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_):
        pass


@contextmanager
def serving_folder(folder):
    """Give the port of a server of the files in *folder*."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running_chromium():
    """Give a running browser."""
    files, scratch = chromium_files(), _scratch_folder()
    program = files / "chromium"
    (scratch / "fonts.conf").write_text(
        FONTS.format(fonts=files / "fonts", cache=scratch / "cache"), "utf-8"
    )
    if os.geteuid() == 0:
        starter = scratch / "starter"
        text = STARTER.format(python=sys.executable, nobody=NOBODY, chromium=str(program))
        starter.write_text(text, "utf-8")
        starter.chmod(0o755)
        program = starter
    environment = {"PATH": os.environ["PATH"], "HOME": str(scratch), "TZ": "UTC"}
    # Few tests need a browser, and its driver is large.
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch:
        # There the driver puts the profile, which the browser's user must reach.
        patch.setenv("TMPDIR", str(scratch))
        playwright = sync_playwright().start()
    try:
        options = {
            "executable_path": program,
            "args": ["--font-render-hinting=none"],
            "env": environment | {"FONTCONFIG_FILE": str(scratch / "fonts.conf")},
        }
        browser = _launch(playwright.chromium, options)
        yield browser
        browser.close()
    finally:
        playwright.stop()


def _launch(chromium, options):
    from playwright.sync_api import Error

    try:
        return chromium.launch(chromium_sandbox=True, **options)
    except Error:
        # Some containers forbid the namespaces that the sandbox needs.
        return chromium.launch(chromium_sandbox=False, **options)


def watched_page(browser, look, *, scripts=True):
    """Return a page of a profile of its own, and the list into which its complaints come."""
    context = browser.new_context(
        viewport={"width": look.width, "height": 844 if look.width < 600 else 800},
        color_scheme=look.colours,
        java_script_enabled=scripts,
        reduced_motion="reduce",
        locale="en-GB",
    )
    page, complaints = context.new_page(), []
    page.set_default_timeout(10_000)

    def hear(message):
        if message.type in {"error", "warning"}:
            complaints.append(f"console: {message.text}")

    def look_at(request):
        origin, home = urlsplit(request.url)[:2], urlsplit(page.url)[:2]
        if request.is_navigation_request() and request.frame == page.main_frame:
            return
        if origin != home:
            complaints.append(f"request to another origin: {request.url}")

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
    page.on("request", look_at)
    return page, complaints


@pytest.fixture(scope="module")
def chromium():
    """Return a browser for a module's tests: an event loop of the main thread ends with it."""
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def open_page(chromium):
    """Return what opens a page; a complaint about an *innocent* page fails the test at its end."""
    opened = []

    def open_with(look=LOOKS[2], *, scripts=True, innocent=True):
        page, complaints = watched_page(chromium, look, scripts=scripts)
        opened.append((page, complaints if innocent else []))
        return page

    yield open_with
    for page, _ in opened:
        page.context.close()
    assert not [complaint for _, complaints in opened for complaint in complaints]


@pytest.fixture(scope="session")
def screenshot(tmp_path_factory):
    """Return what takes a picture of a page under a name, in the folder for them."""
    folder = Path(os.environ.get("TOOLBUS_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)

    def take(page, name, look, *, whole=True):
        page.screenshot(path=folder / f"{name}-{look}.png", full_page=whole, animations="disabled")

    return take


def axe_violations(page):
    """Return what axe finds against WCAG 2.2 AA and its own good practice."""
    source = installed(BROWSER) / "axe-core/axe.min.js"
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(source.read_text("utf-8"))
    report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for violation in report["violations"]
        for node in violation["nodes"]
    ]

"""The pictures of the guide and README: `PYTHONPATH=tests/plugins:. python -m guide_pictures`.

They are taken of a page over invented sessions, and written into `src/toolbus/cli/guide/pictures`.
"""

import base64
import tempfile
from pathlib import Path
from typing import NamedTuple

from browsers import Look, running_chromium, watched_page
from seen_sessions import fill_team_store, in_a_thread
from ui_server import running_ui

FOLDER = Path(__file__).parents[2] / "src/toolbus/cli/guide/pictures"
MOST_BYTES = 60_000


class Picture(NamedTuple):
    """A picture of the page at *path*: its top, or from the element of *selector* on."""

    name: str
    path: str
    look: Look
    height: int
    selector: str = "body"


PICTURES = [
    Picture("sessions", "/", Look(1280, "light"), 560),
    Picture("session", "/sessions/nightly-import", Look(1280, "light"), 800),
    Picture("session-phone", "/sessions/nightly-import", Look(390, "dark"), 844),
    Picture("questions", "/questions", Look(1280, "light"), 560),
    Picture("figures", "/figures", Look(1280, "light"), 640),
]


def take(browser, ui, picture):
    """Write *picture*; raise `AssertionError` if the page complains or the file is large."""
    page, complaints = watched_page(browser, picture.look)
    name, _, value = ui.cookie.partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
    page.goto(ui.url + picture.path)
    top = page.locator(picture.selector).first.bounding_box()["y"]
    clip = {"x": 0, "y": top, "width": picture.look.width, "height": picture.height, "scale": 1}
    image = page.context.new_cdp_session(page).send(
        "Page.captureScreenshot",
        {"format": "webp", "quality": 70, "clip": clip, "captureBeyondViewport": True},
    )
    data = base64.b64decode(image["data"])
    page.context.close()
    assert not complaints, complaints
    assert len(data) <= MOST_BYTES, (picture.name, len(data))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{picture.name}.webp").write_bytes(data)
    return len(data)


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "agents.db")
        in_a_thread(fill_team_store, store)
        with running_ui(store) as ui, running_chromium() as browser:
            for picture in PICTURES:
                print(f"{picture.name}: {take(browser, ui, picture):,} bytes")


if __name__ == "__main__":
    main()

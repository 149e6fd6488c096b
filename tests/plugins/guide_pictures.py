"""The pictures of the guide and README: `PYTHONPATH=tests/plugins:. python -m guide_pictures`.

They are taken of a page over invented sessions, and written into `src/toolbus/cli/guide/pictures`
as PNG with a palette, which is small and sharp.
"""

import base64
import struct
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

from browsers import Look, running_chromium, watched_page
from seen_sessions import fill_team_store, in_a_thread
from ui_server import running_ui

FOLDER = Path(__file__).parents[2] / "src/toolbus/cli/guide/pictures"
MOST_BYTES = 60_000
# The most frequent colours, rare ones that are far from those, and for all others the nearest.
QUANTIZE = """
async (png) => {
  const image = await createImageBitmap(await (await fetch(png)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height), brush = canvas.getContext("2d");
  brush.drawImage(image, 0, 0);
  const pixels = new Uint32Array(
    brush.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const each of pixels) counts.set(each, (counts.get(each) ?? 0) + 1);
  const channels = (each) => [each & 255, (each >> 8) & 255, (each >> 16) & 255];
  const palette = [], places = new Map();
  for (const each of [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a))) {
    const [r, g, b] = channels(each);
    const distances = palette.map(([x, y, z]) => (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2);
    const nearest = Math.min(...distances);
    const isNew = palette.length < 160 || (palette.length < 256 && nearest > 300);
    places.set(each, isNew ? palette.push([r, g, b]) - 1 : distances.indexOf(nearest));
  }
  const bytes = Uint8Array.from(pixels, (each) => places.get(each));
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) {
    text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  }
  return [image.width, image.height, palette.flat(), btoa(text)];
}
"""


class Picture(NamedTuple):
    """A picture of the page at *path*: its top, or from the element of *selector* on."""

    name: str
    path: str
    look: Look
    height: int
    selector: str = "body"


PICTURES = [
    Picture("sessions", "/", Look(1280, "light"), 540),
    Picture("session", "/sessions/nightly-import", Look(1280, "light"), 1286),
    Picture("session-phone", "/sessions/nightly-import", Look(390, "dark"), 844, "#m7"),
    Picture("questions", "/questions", Look(1280, "light"), 780),
    Picture("figures", "/figures", Look(1280, "light"), 620),
]


def take(browser, ui, picture, folder=FOLDER):
    """Write *picture*; raise `AssertionError` if the page complains or the file is large."""
    page, complaints = watched_page(browser, picture.look)
    name, _, value = ui.cookie.partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": ui.url}])
    page.goto(ui.url + picture.path)
    page.wait_for_timeout(1_000)  # The buttons of a question are dim until they have stood still.
    top = page.locator(picture.selector).first.bounding_box()["y"]
    clip = {"x": 0, "y": top, "width": picture.look.width, "height": picture.height}
    png = page.screenshot(clip=clip, full_page=True)
    page.goto("about:blank")
    address = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    data = palette_png(*page.evaluate(QUANTIZE, address))
    page.context.close()
    assert not complaints, complaints
    assert len(data) <= MOST_BYTES, (picture.name, len(data))
    (folder / f"{picture.name}.png").write_bytes(data)
    return len(data)


def palette_png(width, height, palette, text):
    """Return a PNG of indices into *palette* (https://www.w3.org/TR/png-3/)."""
    indices = base64.b64decode(text)
    rows = [b"\0" + indices[start : start + width] for start in range(0, len(indices), width)]
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(palette)),
        (b"IDAT", zlib.compress(b"".join(rows), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in chunks
        ]
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "agents.db")
        in_a_thread(fill_team_store, store)
        with running_ui(store) as ui, running_chromium() as browser:
            for picture in PICTURES:
                print(f"{picture.name}: {take(browser, ui, picture):,} bytes")


if __name__ == "__main__":
    main()

"""One session as one HTML file that needs no server and makes no request."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolbus.history.timeline import read_timeline
from toolbus.ui.rendering import read_asset, render_lazily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from toolbus.history.timeline import Timeline
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow


def write_session(
    stream: BinaryIO,
    parts: Iterator[Timeline],
    session: SessionRow,
    redact: Callable[[Any], Any] = lambda view: view,
) -> None:
    """Write the timeline of *session*, whose *parts* follow each other, as one page of HTML.

    *redact* returns a part, or the row of the session, without the texts to hide. At most one part
    is in memory at a time.
    """
    style, script = read_asset("style.css"), read_asset("script.js")
    chunks = render_lazily(
        "session.html",
        session=redact(session),
        parts=map(redact, parts),
        style=style,
        script=script,
        policy=_policy(style, script),
        nonce="",
        waiting=(),
        live=False,
    )
    stream.writelines(chunk.encode() for chunk in chunks)


def read_parts(reader: SqlReader, session: SessionRow) -> Iterator[Timeline]:
    """Yield the timeline of *session* in parts, with the values that it keeps."""
    after, has_more = 0, True
    while has_more:
        part = read_timeline(reader, session, after, values=True)
        yield part
        after, has_more = part.end, part.has_more


def _policy(style: str, script: str) -> str:
    """Return the content security policy of the file: its own style and script, and no request."""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    sources = f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"

"""The end of the originals that a session kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolbus.inspect.finding import find_session
from toolbus.inspect.printing import print_json
from toolbus.store.archive import Archive
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal.screen import open_screen

if TYPE_CHECKING:
    import os

    from toolbus.terminal.output import Output


def forget_originals(
    output: Output, path: str | os.PathLike[str], name: str, *, as_json: bool = False
) -> int:
    """Delete the originals of the session *name* from the store *path*; return 0."""
    with Archive(path) as archive:
        session = find_session(archive, name)
    forgotten = asyncio.run(_forget(path, session.id))
    if as_json:
        print_json(output, {"session": session.id, "forgotten": forgotten})
        return 0
    count = f"{forgotten:,} original{'s' * (forgotten != 1)}"
    screen = open_screen(output)
    screen.prose(f"{count} of session {session.id} deleted; its messages and records stay")
    return 0


async def _forget(path: str | os.PathLike[str], session_id: str) -> int:
    async with SqliteStore(path) as store:
        return await store.forget_originals(session_id)

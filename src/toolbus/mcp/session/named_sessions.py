"""Named question sessions, which outlast the proxy's process.

A host starts a new proxy on pipes for each of its sessions, and after a kill. With a name, all of
these processes share the questions and grants of one session, so a repeated call finds its earlier
question. The session is specific to the name, the account, the machine and folder, the server
command and the client's name. While one process holds it, another process has its own session.

**Limit.** Clients choose their names, and write access to the store bypasses sessions altogether.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.approvals.records import canonical
from toolbus.errors import SessionBusyError
from toolbus.mcp.protocol.revisions import CLIENT
from toolbus.messages.ids import new_id
from toolbus.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus")


class NamedSession(NamedTuple):
    """The session *name*, with *facts* that identify its account, folder and server."""

    name: str
    facts: tuple[str, ...]

    def id_for(self, client: str = "") -> str:
        """Return the session's id for the client named *client*."""
        digest = hashlib.sha256(canonical([self.name, *self.facts, client])).hexdigest()
        return f"{self.name}-{digest[:16]}"


@asynccontextmanager
async def named_session(
    store: Store, name: str, server: Sequence[str]
) -> AsyncIterator[NamedSession | None]:
    """Hold the session *name* of this account, machine and folder in front of *server*.

    Yields None, and logs a warning, while another process holds the session.
    """
    facts = (str(os.getuid()), os.uname().nodename, str(Path.cwd()), *server)
    session = NamedSession(name, facts)
    async with AsyncExitStack() as opened:
        try:
            await opened.enter_async_context(
                Writer(store, session.id_for(), new_id()).hold(_catch_up)
            )
        except SessionBusyError:
            reason = "another proxy holds session %r; this proxy keeps its questions separate"
            logger.warning(reason, name)
            yield None
            return
        yield session


def client_name(params: Mapping[str, Any]) -> str:
    """Return the client's name in *params* of `initialize` or of a stateless request, or ""."""
    meta = params.get("_meta")
    for facts in (params.get("clientInfo"), meta.get(CLIENT) if isinstance(meta, dict) else None):
        match facts:
            case {"name": str(name)}:
                return name
    return ""


async def _catch_up(_: int) -> None:
    """Do nothing: the session has no messages."""

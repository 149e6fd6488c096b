"""A session of questions that outlasts the proxy's process: one client after another, by a name.

Hosts start a proxy on pipes anew for each of their own sessions, and when it was killed. With a
name the questions and grants of all of these count as those of one session, so the same call again
attaches to what was asked before. Nobody else does: the session is that of the name, the account,
machine and folder, what stands behind the proxy and what the client calls itself. As long as one
process has it, another one has a session of its own.

**Limit.** A client tells its name itself, and whoever can write the store needs no session for it.
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
    """The session *name*, and *facts* that are the same for nobody but those whose it is."""

    name: str
    facts: tuple[str, ...]

    def id_for(self, client: str = "") -> str:
        """Return the id of the session of who calls itself *client*."""
        digest = hashlib.sha256(canonical([self.name, *self.facts, client])).hexdigest()
        return f"{self.name}-{digest[:16]}"


@asynccontextmanager
async def named_session(
    store: Store, name: str, server: Sequence[str]
) -> AsyncIterator[NamedSession | None]:
    """Give the session *name* in front of *server*, as long as no other process has it.

    It is that of this account, machine and folder. While another one has it this is None, of which
    a warning tells.
    """
    facts = (str(os.getuid()), os.uname().nodename, str(Path.cwd()), *server)
    session = NamedSession(name, facts)
    async with AsyncExitStack() as opened:
        try:
            await opened.enter_async_context(
                Writer(store, session.id_for(), new_id()).hold(_catch_up)
            )
        except SessionBusyError:
            reason = "another proxy runs in session %r, so questions of this one are its own"
            logger.warning(reason, name)
            yield None
            return
        yield session


def client_name(params: Mapping[str, Any]) -> str:
    """Return what a client calls itself that sent *params*, in `initialize` or any request."""
    meta = params.get("_meta")
    for facts in (params.get("clientInfo"), meta.get(CLIENT) if isinstance(meta, dict) else None):
        match facts:
            case {"name": str(name)}:
                return name
    return ""


async def _catch_up(_: int) -> None:
    """Do nothing: there are no messages in it."""

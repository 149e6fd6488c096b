"""A subscription of a client, forwarded to each server of a group that supports it.

See MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from toolbus.mcp.group.merge import SEPARATOR
from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import LISTEN, SUBSCRIPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.mcp.group.grouped_server import GroupedServer

    Filter = Mapping[str, Any]

logger = logging.getLogger("toolbus")

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"


class ClientSubscription:
    """The subscription *own_id* of a client, with a filter for each server.

    *kinds* are the lists whose changes the client subscribes to, including changes that the group
    causes itself. *notify* takes lines for the client.
    """

    def __init__(
        self,
        own_id: Any,
        kinds: list[str],
        filters: Mapping[GroupedServer, Filter],
        notify: Callable[[bytes], object],
    ) -> None:
        self._own_id, self._kinds, self._notify = own_id, kinds, notify
        self._acknowledged: set[tuple[GroupedServer, int]] = set()
        self._filters = {(server, server.next_id()): theirs for server, theirs in filters.items()}

    async def run(self, params: dict[str, Any]) -> Any:
        """Subscribe at the servers; return the result once a server ends its part.

        The client then subscribes again, and refetches lists that may have changed.
        """
        self._send(_ACKNOWLEDGED, {"notifications": self._honored()})
        asking = {}
        for key, theirs in self._filters.items():
            server, request_id = key
            asked = {**params, "notifications": theirs}
            ask = server.ask(LISTEN, asked, request_id=request_id)
            asking[asyncio.create_task(ask)] = key
        try:
            lasting = {*asking}
            while lasting:
                done, lasting = await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)
                if any(asking[task] in self._acknowledged for task in done):
                    return {"resultType": "complete", "_meta": {SUBSCRIPTION: self._own_id}}
            # Without any server, the subscription lasts until the client cancels it.
            return await asyncio.Future()
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _honored(self) -> Filter:
        """Return the merged filter to acknowledge, with prefixed ids of tasks."""
        honored: dict[str, Any] = {f"{kind}ListChanged": True for kind in self._kinds}
        for (server, _), theirs in self._filters.items():
            for name, values in theirs.items():
                if isinstance(values, list):
                    prefix = server.name + SEPARATOR if name == "taskIds" else ""
                    honored[name] = [*honored.get(name, ()), *[prefix + each for each in values]]
        return honored

    def receive(
        self, server: GroupedServer, request_id: int, method: str, params: dict[str, Any]
    ) -> bool:
        """Process a notification for *request_id*; return whether it belongs here."""
        key = server, request_id
        theirs = self._filters.get(key)
        if theirs is not None and method == _ACKNOWLEDGED:
            self._acknowledged.add(key)
        elif theirs is not None and method == _UPDATED and not _is_below(params.get("uri"), theirs):
            logger.warning("dropped an update of server %r: not subscribed", server.name)
        elif theirs is not None:
            self._send(method, params)
        return theirs is not None

    def list_changed(self, kind: str) -> None:
        """Notify the client of a changed list of *kind*, if it has subscribed to it."""
        if kind in self._kinds:
            self._send(f"notifications/{kind}/list_changed", {})

    def _send(self, method: str, params: dict[str, Any]) -> None:
        meta = params.get("_meta")
        meta = {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION: self._own_id}
        self._notify(write_frame(method=method, params={**params, "_meta": meta}))


def _is_below(uri: Any, theirs: Filter) -> bool:
    """Return whether *uri* is a resource in the filter *theirs*, or below one."""
    return isinstance(uri, str) and uri.startswith(tuple(theirs.get("resourceSubscriptions", ())))
